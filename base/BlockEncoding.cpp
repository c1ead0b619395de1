// Writing blocks; see BlockEncoding.h.
#include "base/BlockEncoding.h"

#include "base/Float.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tensmith {
namespace {

constexpr double kLargestScale = 65504; // of an f16
constexpr size_t kMostElements = 256;   // of a block

int bitsOf(const BlockFormat &format) {
  int bits = 0;
  for (const BitPlane &plane : format.planes)
    bits = std::max(bits, plane.bits + plane.shift);
  return bits;
}

void encodePlain(const BlockFormat &format, const float *from, std::byte *to) {
  if (format.plain == DataType::F32) {
    std::memcpy(to, from, format.bytes);
    return;
  }
  const FloatFormat &kind = *floatFormat(format.plain);
  for (int i = 0; i < format.elements; ++i) {
    uint16_t code = encode(kind, double(from[i]), false);
    std::memcpy(to + 2 * i, &code, sizeof code);
  }
}

/// The number of the largest magnitude, with its sign.
double extremeOf(const BlockFormat &format, const float *from) {
  double extreme = 0;
  for (int i = 0; i < format.elements; ++i)
    if (std::fabs(from[i]) > std::fabs(extreme))
      extreme = double(from[i]);
  return extreme;
}

struct Levels {
  int count, least, most;
  explicit Levels(const BlockFormat &format)
      : count(1 << bitsOf(format)), least(format.isSigned ? 1 - count / 2 : -int(format.bias)),
        most(format.isSigned ? count / 2 - 1 : count - 1 - format.bias) {}
};

/// The codes of a block's elements, where `to` has zeros. The loops are `byteOf` and `digitOf` of
/// elements one after another, without their divisions.
void putCodes(const BlockFormat &format, const uint8_t *codes, std::byte *to) {
  for (const BitPlane &plane : format.planes) {
    std::byte *chunk = to + plane.offset;
    const uint8_t *code = codes + plane.first, *end = code + plane.count;
    for (; code != end; chunk += plane.span)
      for (int digit = 0; digit < plane.digits() && code != end; ++digit)
        for (int i = 0; i < plane.span; ++i, ++code)
          chunk[i] |=
              std::byte((*code >> plane.shift & ((1 << plane.bits) - 1)) << (digit * plane.bits));
  }
}

/// By a scale that is given, an f16: numbers become the nearest levels.
void encodeBlockBy(const BlockFormat &format, double scale, const float *from, std::byte *to) {
  Levels levels(format);
  const FloatFormat &half = *floatFormat(DataType::F16);
  uint16_t stored = encode(half, scale, true);
  scale = decode(half, stored);
  std::memset(to, 0, format.bytes);
  std::memcpy(to + format.scaleAt, &stored, sizeof stored);
  std::array<uint8_t, kMostElements> codes{};
  for (int i = 0; i < format.elements; ++i) {
    double level = scale != 0 && !std::isnan(from[i]) ? double(from[i]) / scale : 0;
    int code = int(std::nearbyint(std::clamp(level, double(levels.least), double(levels.most))));
    codes[size_t(i)] = uint8_t(unsigned(code + format.bias) & (unsigned(levels.count) - 1));
  }
  putCodes(format, codes.data(), to);
}

} // namespace

bool canEncode(const BlockFormat &format) {
  if (format.plain != DataType::Undefined)
    return true;
  bool hasDigits = std::ranges::all_of(format.planes, [](const BitPlane &p) { return p.bits > 0; });
  return hasDigits && format.levels.empty() && format.scale == BlockScale::F16 &&
         !format.hasOffset() && format.scales.empty() && format.group == format.elements;
}

void encodeBlock(const BlockFormat &format, const float *from, std::byte *to) {
  if (format.plain != DataType::Undefined)
    return encodePlain(format, from, to);
  Levels levels(format);
  double extreme = extremeOf(format, from);
  double scale = format.isSigned ? std::fabs(extreme) / levels.most : extreme / levels.least;
  encodeBlockBy(format, std::clamp(scale, -kLargestScale, kLargestScale), from, to);
}

void putBlock(const BlockFormat &format, std::span<const uint8_t> codes, float scale, float zero,
              std::byte *to) {
  std::memset(to, 0, format.bytes);
  putCodes(format, codes.data(), to);
  if (format.scale == BlockScale::F32) {
    std::memcpy(to + format.scaleAt, &scale, sizeof scale);
  } else {
    uint16_t half = encode(*floatFormat(DataType::F16), double(scale), true);
    std::memcpy(to + format.scaleAt, &half, sizeof half);
  }
  if (!format.hasOffset())
    return;
  float offset = -scale * zero;
  if (format.offset == BlockOffset::Zero)
    to[format.offsetAt] = std::byte(uint8_t(zero));
  else
    std::memcpy(to + format.offsetAt, &offset, sizeof offset);
}

void encodeRow(const BlockFormat &format, std::span<const float> from, std::byte *to) {
  for (size_t at = 0; at + format.elements <= from.size(); at += format.elements)
    encodeBlock(format, from.data() + at, to + at / format.elements * format.bytes);
}

} // namespace tensmith
