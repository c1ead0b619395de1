// Codes and steps; see Format.h.
#include "quantize/Format.h"

#include "base/Float.h"

#include <algorithm>
#include <cmath>

namespace tensmith::quantize {
namespace {

// The quantiles of N(0, 1) at 16 evenly spaced probabilities, zero among them, divided by the
// largest; as published.
constexpr float kNormalFloatLevels[16] = {-1.0f,        -0.69619280f, -0.52507305f,  -0.39491749f,
                                          -0.28444138f, -0.18477343f, -0.091050036f, 0.0f,
                                          0.079580299f, 0.16093020f,  0.24611230f,   0.33791524f,
                                          0.44070983f,  0.56261700f,  0.72295684f,   1.0f};

constexpr double kLargestFloat8 = 448; // of E4M3FN

float float8(float value) {
  const FloatFormat &format = *floatFormat(DataType::F8E4M3FN);
  return float(decode(format, encode(format, value, /*saturate=*/true)));
}

float nearestLevel(float value) {
  auto above = std::ranges::lower_bound(kNormalFloatLevels, value);
  if (above == std::begin(kNormalFloatLevels))
    return 0;
  if (above == std::end(kNormalFloatLevels))
    return 15;
  bool isLower = value - above[-1] <= above[0] - value;
  return float(above - std::begin(kNormalFloatLevels) - (isLower ? 1 : 0));
}

/// A scale that can be divided by: of zeros alone it is 1.
float usableScale(const Format &format, double scale) {
  if (!(scale > 0) || !std::isfinite(scale))
    return 1;
  if (format.hasPowerOfTwoScale)
    scale = std::exp2(std::ceil(std::log2(scale)));
  constexpr double kLeast = 1e-30, kMost = 1e30; // products of two of them are floats, too
  return float(std::clamp(scale, kLeast, kMost));
}

} // namespace

int Format::lowest() const {
  if (!isSigned)
    return 0;
  int most = 1 << (bits - 1);
  return isBipolar() ? -1 : isSymmetric ? 1 - most : -most;
}

int Format::highest() const {
  return isBipolar() ? 1 : isSigned ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
}

std::string Format::text() const {
  if (isFloat())
    return "float";
  std::string text = storage == Storage::Float8         ? "fp8"
                     : storage == Storage::NormalFloat4 ? "nf4"
                     : isSigned                         ? "int" + std::to_string(bits)
                                                        : "uint" + std::to_string(bits);
  if (isInteger() && isSigned != isSymmetric)
    text += isSymmetric ? " symmetric" : " asymmetric";
  if (granularity != Granularity::Tensor)
    text += granularity == Granularity::Channel ? " per channel" : " per " + std::to_string(group);
  return text + (hasPowerOfTwoScale ? ", power of two" : "");
}

Step stepFor(const Format &format, double low, double high, double meanMagnitude) {
  low = std::min(low, 0.0);
  high = std::max(high, 0.0);
  double most = std::max(-low, high);
  if (format.storage == Storage::Float8)
    return {usableScale(format, most / kLargestFloat8), 0};
  if (format.storage == Storage::NormalFloat4)
    return {usableScale(format, most), 0};
  if (format.isBipolar())
    return {usableScale(format, meanMagnitude), 0};
  if (format.isSymmetric) {
    int middle = format.isSigned || low == 0 ? 0 : 1 << (format.bits - 1);
    // One unsigned bit has a code below its middle, and none above it.
    int reach = std::max(format.highest() - middle, 1);
    return {usableScale(format, most / reach), middle};
  }
  float scale = usableScale(format, (high - low) / (format.highest() - format.lowest()));
  double zero = std::nearbyint(format.lowest() - low / scale);
  return {scale, int(std::clamp(zero, double(format.lowest()), double(format.highest())))};
}

float encode(const Format &format, Step step, float value) {
  float number = value / step.scale;
  if (format.storage == Storage::Float8)
    return float8(number);
  if (format.storage == Storage::NormalFloat4)
    return nearestLevel(number);
  if (format.isBipolar())
    return number < 0 ? -1.0f : 1.0f;
  if (std::isnan(number))
    return float(step.zero);
  return std::clamp(std::nearbyint(number) + float(step.zero), float(format.lowest()),
                    float(format.highest()));
}

float decode(const Format &format, Step step, float code) {
  if (format.storage == Storage::NormalFloat4)
    return kNormalFloatLevels[size_t(code)] * step.scale;
  return (code - float(step.zero)) * step.scale;
}

std::span<const float, 16> normalFloatLevels() { return kNormalFloatLevels; }

DataType codeType(const Format &format, bool packed) {
  if (format.storage == Storage::Float8)
    return DataType::F8E4M3FN;
  if (format.storage == Storage::NormalFloat4)
    return DataType::U8;
  if (format.bits > 8)
    return format.isSigned ? DataType::I16 : DataType::U16;
  if (packed && format.bits <= 4)
    return format.isSigned ? DataType::I4 : DataType::U4;
  return format.isSigned ? DataType::I8 : DataType::U8;
}

} // namespace tensmith::quantize
