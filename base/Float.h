// The floats that the host has no arithmetic for: 16 bits, 8 bits and 4 bits, to and from double.
//
// Every value of these formats is a double exactly, and a double is rounded to them once, to
// nearest even, also where the result is subnormal. Sources: IEEE 754 (F16), the OCP specifications
// "8-bit Floating Point" (E4M3FN, E5M2) and "Microscaling Formats" (E2M1, E8M0), arXiv 2206.02915
// (the FNUZ variants), and ONNX Cast for what becomes of values out of range.
#pragma once

#include "base/DataType.h"

namespace tensmith {

/// A binary float of 16 bits or fewer: sign, exponent, mantissa. (E8M0 has neither sign nor
/// mantissa: see below.)
struct FloatFormat {
  uint8_t exponentBits;
  uint8_t mantissaBits;
  int bias;
  bool hasInfinity;
  bool signedZero;    // not in the FNUZ formats, whose code of -0 is their NaN
  uint16_t maxFinite; // the code of the largest value
  uint16_t nan;       // the code of NaN without the sign; 0 where there is none
};

/// The format of that type; null for types that are none of these.
const FloatFormat *floatFormat(DataType type);

double decode(const FloatFormat &format, uint16_t code);

/// Out of range: the largest finite value where `saturate` or where the format has nothing else,
/// infinity or NaN otherwise. NaN becomes zero in a format without it.
uint16_t encode(const FloatFormat &format, double value, bool saturate);

enum class PowerRounding : uint8_t { Up, Down, Nearest };

/// F8E8M0: 2^(code - 127), 0xFF is NaN. The sign of `value` is ignored. Out of range, zero and
/// infinity included: the nearest value where `saturate`, NaN otherwise.
double decodeF8E8M0(uint8_t code);
uint8_t encodeF8E8M0(double value, PowerRounding rounding, bool saturate);

/// Toward zero, then modulo 2^64, so that a truncation to fewer bits wraps; 0 of NaN and the
/// infinities.
uint64_t truncateToInteger(double value);

/// The double next to an integer, rounded to odd: rounding it further to any format of 50 bits or
/// fewer gives what rounding the integer itself gives (Boldo & Melquiond, "Emulation of FMA and
/// correctly rounded sums").
double roundToOdd(int64_t value);
double roundToOdd(uint64_t value);

} // namespace tensmith
