// Conversions between double and the formats of 16 bits and fewer (see Float.h).
//
// encode() works on the bits of the double: the mantissa is shifted to the target's width, further
// where the result is subnormal, and rounded once. A carry out of the mantissa runs into the
// exponent field by itself.
#include "base/Float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tensmith {
namespace {

constexpr FloatFormat kF16 = {5, 10, 15, true, true, 0x7BFF, 0x7E00};
constexpr FloatFormat kBF16 = {8, 7, 127, true, true, 0x7F7F, 0x7FC0};
constexpr FloatFormat kF8E4M3FN = {4, 3, 7, false, true, 0x7E, 0x7F};
constexpr FloatFormat kF8E4M3FNUZ = {4, 3, 8, false, false, 0x7F, 0x80};
constexpr FloatFormat kF8E5M2 = {5, 2, 15, true, true, 0x7B, 0x7E};
constexpr FloatFormat kF8E5M2FNUZ = {5, 2, 16, false, false, 0x7F, 0x80};
constexpr FloatFormat kF4E2M1 = {2, 1, 1, false, true, 0x7, 0};

constexpr uint64_t kMantissa = (uint64_t(1) << 52) - 1;

int signShift(const FloatFormat &format) { return format.exponentBits + format.mantissaBits; }

/// m / 2^shift, to nearest even. m has at most 53 bits.
uint64_t shiftRounding(uint64_t m, int shift) {
  shift = std::min(shift, 63);
  uint64_t quotient = m >> shift;
  uint64_t remainder = m & ((uint64_t(1) << shift) - 1);
  uint64_t half = uint64_t(1) << (shift - 1);
  return quotient + (remainder > half || (remainder == half && (quotient & 1)));
}

/// The code of a finite, positive, normal double, which may lie beyond maxFinite.
uint64_t encodeMagnitude(const FloatFormat &format, uint64_t bits) {
  int exponent = int(bits >> 52) - 1023;
  uint64_t mantissa = (bits & kMantissa) | (uint64_t(1) << 52);
  int lowest = 1 - format.bias;
  int shift = 52 - format.mantissaBits + std::max(0, lowest - exponent);
  uint64_t rounded = shiftRounding(mantissa, shift);
  if (exponent < lowest)
    return rounded;
  return rounded + (uint64_t(exponent - lowest) << format.mantissaBits);
}

uint16_t encodeNan(const FloatFormat &format, bool negative) {
  if (!format.signedZero)
    return format.nan;
  // Without a NaN: a zero, signed as the hardware's conversions and ml_dtypes leave it.
  bool sign = format.nan ? negative : !negative;
  return uint16_t(format.nan | (sign << signShift(format)));
}

uint16_t overflow(const FloatFormat &format, bool negative, bool saturate) {
  uint16_t sign = uint16_t(negative << signShift(format));
  if (saturate || (!format.hasInfinity && !format.nan))
    return sign | format.maxFinite;
  return format.hasInfinity ? sign | uint16_t(format.maxFinite + 1) : encodeNan(format, negative);
}

} // namespace

const FloatFormat *floatFormat(DataType type) {
  switch (type) {
  case DataType::F16:
    return &kF16;
  case DataType::BF16:
    return &kBF16;
  case DataType::F8E4M3FN:
    return &kF8E4M3FN;
  case DataType::F8E4M3FNUZ:
    return &kF8E4M3FNUZ;
  case DataType::F8E5M2:
    return &kF8E5M2;
  case DataType::F8E5M2FNUZ:
    return &kF8E5M2FNUZ;
  case DataType::F4E2M1:
    return &kF4E2M1;
  default:
    return nullptr;
  }
}

double decode(const FloatFormat &format, uint16_t code) {
  int shift = signShift(format);
  bool negative = (code >> shift) & 1;
  uint16_t magnitude = code & uint16_t((1u << shift) - 1);
  if (!format.signedZero && negative && magnitude == 0)
    return std::numeric_limits<double>::quiet_NaN();
  if (magnitude > format.maxFinite) {
    bool infinite = format.hasInfinity && magnitude == format.maxFinite + 1;
    double value = infinite ? std::numeric_limits<double>::infinity()
                            : std::numeric_limits<double>::quiet_NaN();
    return negative ? -value : value;
  }
  int exponent = magnitude >> format.mantissaBits;
  int mantissa = magnitude & ((1 << format.mantissaBits) - 1);
  if (exponent > 0)
    mantissa |= 1 << format.mantissaBits;
  double value =
      std::ldexp(double(mantissa), std::max(exponent, 1) - format.bias - format.mantissaBits);
  return negative ? -value : value;
}

uint16_t encode(const FloatFormat &format, double value, bool saturate) {
  bool negative = std::signbit(value);
  if (std::isnan(value))
    return encodeNan(format, negative);
  if (std::isinf(value))
    return overflow(format, negative, saturate);
  uint64_t bits = std::bit_cast<uint64_t>(value) & ~(uint64_t(1) << 63);
  // A subnormal double is below half of the smallest value of any of these formats.
  uint64_t magnitude = bits >> 52 ? encodeMagnitude(format, bits) : 0;
  if (magnitude > format.maxFinite)
    return overflow(format, negative, saturate);
  if (magnitude == 0 && !format.signedZero)
    return 0;
  return uint16_t(magnitude | (uint64_t(negative) << signShift(format)));
}

double decodeF8E8M0(uint8_t code) {
  if (code == 0xFF)
    return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(1.0, int(code) - 127);
}

uint8_t encodeF8E8M0(double value, PowerRounding rounding, bool saturate) {
  if (std::isnan(value))
    return 0xFF;
  value = std::fabs(value);
  if (value < 0x1p-127 || value > 0x1p127)
    return !saturate ? 0xFF : value > 1 ? 0xFE : 0;
  int exponent = std::ilogb(value);
  double fraction = std::ldexp(value, -exponent);
  bool up = rounding == PowerRounding::Nearest ? fraction >= 1.5 : fraction > 1;
  return uint8_t(exponent + 127 + (up && rounding != PowerRounding::Down));
}

uint64_t truncateToInteger(double value) {
  if (!std::isfinite(value))
    return 0;
  if (value > -0x1p63 && value < 0x1p63)
    return uint64_t(int64_t(value));
  double wrapped = std::fmod(std::fabs(value), 0x1p64);
  return value < 0 ? -uint64_t(wrapped) : uint64_t(wrapped);
}

double roundToOdd(uint64_t value) {
  int excess = 64 - 53 - std::countl_zero(value | 1);
  if (excess <= 0)
    return double(value);
  uint64_t low = value & ((uint64_t(1) << excess) - 1);
  uint64_t kept = (value >> excess) | (low != 0);
  return std::ldexp(double(kept), excess);
}

double roundToOdd(int64_t value) {
  return value < 0 ? -roundToOdd(-uint64_t(value)) : roundToOdd(uint64_t(value));
}

} // namespace tensmith
