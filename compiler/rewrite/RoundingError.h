// How much a layer's results err where it is computed in a way that rounds differently: found out
// on its own weights, with random inputs, when the way is chosen.
//
// Inputs are N(0, 1), or, once the model was calibrated (pipeline/Calibration.h), have the moments
// that each channel of the layer's input had: sums that cancel, as of weights whose mean is zero on
// numbers far from it, err by many times as much.
#pragma once

#include "base/Fourier.h"
#include "base/HostTensor.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace tensmith::rewrite {

/// What a layer may err by, against its largest result, under the policies `fast` and `bf16`. The
/// first leaves room for a hundred layers within 1e-4; the second is what rounding both operands to
/// 8 bits gives, with a margin for sums that cancel.
inline constexpr double kFastBound = 1e-5, kBfloatBound = 1.0 / 64;

/// And under each policy one of codes that are multiplied as integers: a step of 8-bit codes, so
/// that what is rounded to such ones again is the next one at most.
inline constexpr double kCodeBound = 1.0 / 255;

/// Mean and deviation of each channel of a layer's input; none: 0 and 1.
struct InputMoments {
  std::vector<double> means, deviations;

  int64_t channels() const { return int64_t(means.size()); }
  float drawn(int64_t channel, uint64_t seed, uint64_t index) const;
};

/// As the layer's operator carries them, or none.
InputMoments inputMoments(mlir::Operation *layer);
void setInputMoments(mlir::Operation *layer, const InputMoments &moments);
void dropInputMoments(mlir::Operation *layer);

/// Of a convolution with stride 1 by Winograd tiles of so many outputs, in f32. weights: f32 [M, C,
/// frames..., taps, taps]. Some tiles, channels of the output among them, are looked at.
double errorOfWinograd(const HostTensor &weights, int64_t outputs, const InputMoments &moments);

/// Of such a convolution by Fourier transforms of the tile. weights: f32 [M, C / group, window...]
/// with those dilations; `depthwise`: element by element. Few channels of the output are looked at.
double errorOfFourier(const HostTensor &weights, const FourierTile &tile,
                      std::span<const int64_t> dilations, bool depthwise,
                      const InputMoments &moments);

/// Of products of rows with weights by a step of Strassen's, in f32. weights: f32 [depth, columns].
/// Some columns are looked at.
double errorOfStrassen(const HostTensor &weights, const InputMoments &moments);

/// Of products of rows with weights, where one or both are rounded to bf16. weights: f32 [outputs,
/// inputs, ...] where `outputsFirst`, else [inputs, outputs].
double errorOfBfloat(const HostTensor &weights, bool outputsFirst, bool roundsWeights,
                     bool roundsRows, const InputMoments &moments);

/// Of a product of dequantised 8-bit codes (CodedOperands.h), where codes are multiplied as
/// integers, and the sums scaled afterwards; none where scales are no constants. Some outputs are
/// looked at. Codes of the left operand have its moments, or are any.
std::optional<double> errorOfIntegers(mlir::Operation *product);

/// Of the same product as it is, in f32, if the other is known.
double errorOfDequantized(mlir::Operation *product);

/// Gives the product moments, where it has none: those of the left operand's codes, any of which
/// are as likely.
void setMomentsOfCodes(mlir::Operation *product);

} // namespace tensmith::rewrite
