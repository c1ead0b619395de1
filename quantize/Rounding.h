// Weights as codes: rounded one by one, or so that a layer's output errs the least.
//
// A layer's weights are a matrix, a row for each output. With inputs x the error of a row is
// (w - q)^T H (w - q), where H is the mean of x x^T: all that the inputs have to say.
//
//   nearest   each weight by itself
//   gptq      the error that a weight makes is taken off the weights that come after it, by the
//             Cholesky factor of H's inverse (Frantar et al., "GPTQ", 2022)
//
// AWQ (Lin et al., "Activation-aware Weight Quantization", 2023) scales inputs before that; what
// the layer computes stays the same, and channels with large inputs are rounded more finely.
#pragma once

#include "base/Status.h"
#include "quantize/Histogram.h"

namespace tensmith::quantize {

/// Row-major; a row for each output of a layer.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;

  std::span<float> row(int64_t i) { return {values.data() + i * columns, size_t(columns)}; }
  std::span<const float> row(int64_t i) const {
    return {values.data() + i * columns, size_t(columns)};
  }
};

/// Of the columns of a layer's inputs, [columns, columns].
using Moments = std::vector<double>;

struct Codes {
  Format format;
  int64_t rows = 0, columns = 0;
  std::vector<float> codes;
  std::vector<Step> steps; ///< one; or of each row; or of each row all groups

  int64_t groups() const;
  const Step &step(int64_t row, int64_t column) const;
  Matrix decoded() const;
};

/// Steps by the range of each tensor, row or group. With `bestRange` ranges are narrowed where that
/// makes the mean square of the errors smaller.
std::vector<Step> stepsOf(const Matrix &weights, const Format &format, bool bestRange);

Codes roundNearest(const Matrix &weights, const Format &format, bool bestRange);

/// InvalidArgument where `moments` are not finite.
Result<Codes> roundGptq(const Matrix &weights, const Format &format, bool bestRange,
                        const Moments &moments);

/// The sum over rows of (w - q)^T H (w - q).
double outputError(const Matrix &weights, const Matrix &rounded, const Moments &moments);

/// In place: the upper factor U of the inverse, U^T U = A^-1. False where A isn't positive
/// definite.
bool inverseFactor(std::vector<double> &a, int64_t size);

} // namespace tensmith::quantize
