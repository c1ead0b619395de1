// How a number is stored in few bits: which codes there are, and what a code stands for.
//
//   integers:  x = (code - zero) * scale, codes of 1 to 16 bits (ONNX QuantizeLinear)
//   fp8:       x = code * scale, codes are floats of 8 bits (E4M3FN)
//   nf4:       x = level[code] * scale, 16 levels that normally distributed numbers fill evenly
//
// A code is kept as a float: integers of 16 bits and floats of 8 are exact there. Signed symmetric
// integers leave the lowest code out, so that -x has the negated code of x; in 1 bit they are the
// bipolar codes -1 and 1.
//
// Sources: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-
// Arithmetic-Only Inference" (2018); Dettmers et al., "QLoRA" (2023), for the levels of NF4.
#pragma once

#include "base/DataType.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tensmith::quantize {

enum class Storage : uint8_t { Float, Integer, Float8, NormalFloat4 };
enum class Granularity : uint8_t { Tensor, Channel, Group };

struct Format {
  Storage storage = Storage::Integer;
  int bits = 8;
  bool isSigned = true;
  bool isSymmetric = true;
  bool hasPowerOfTwoScale = false;
  Granularity granularity = Granularity::Tensor;
  int64_t group = 0; ///< elements that share a scale, of Granularity::Group

  bool isFloat() const { return storage == Storage::Float; }
  bool isInteger() const { return storage == Storage::Integer; }
  bool isBipolar() const { return isInteger() && bits == 1 && isSigned; }
  /// Of integers.
  int lowest() const;
  int highest() const;
  /// "int8 per channel", "uint4 per 32, power of two"; "float".
  std::string text() const;
  bool operator==(const Format &) const = default;
};

/// What the codes of some elements share.
struct Step {
  float scale = 1;
  int zero = 0;
};

/// The step by which codes reach from `low` to `high`, zero included; `meanMagnitude` is the scale
/// of bipolar codes, which have no range.
Step stepFor(const Format &format, double low, double high, double meanMagnitude);

float encode(const Format &format, Step step, float value);
float decode(const Format &format, Step step, float code);
inline float rounded(const Format &format, Step step, float value) {
  return decode(format, step, encode(format, step, value));
}

/// The levels of NF4, from -1 to 1.
std::span<const float, 16> normalFloatLevels();

/// The ONNX type that codes are stored in: the narrowest with `packed`, else of whole bytes, which
/// integer kernels take.
DataType codeType(const Format &format, bool packed);

} // namespace tensmith::quantize
