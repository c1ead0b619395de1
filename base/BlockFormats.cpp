// The formats of BlockFormats.h, a row each, and their one reader.
#include "base/BlockFormats.h"

#include "base/Float.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <string>
#include <vector>

namespace tensmith {
namespace {

// ---- Planes

constexpr BitPlane whole(uint16_t offset, uint8_t bits, uint8_t span, uint16_t count,
                         uint8_t shift = 0) {
  return {offset, bits, span, shift, 0, count};
}

constexpr BitPlane kQ40[] = {whole(2, 4, 16, 32)};
constexpr BitPlane kQ41[] = {whole(4, 4, 16, 32)};
constexpr BitPlane kQ50[] = {whole(6, 4, 16, 32), whole(2, 1, 1, 32, 4)};
constexpr BitPlane kQ51[] = {whole(8, 4, 16, 32), whole(4, 1, 1, 32, 4)};
constexpr BitPlane kQ80[] = {whole(2, 8, 32, 32)};
constexpr BitPlane kQ2[] = {whole(16, 2, 32, 256)};
constexpr BitPlane kQ3[] = {whole(32, 2, 32, 256), whole(0, 1, 32, 256, 2)};
constexpr BitPlane kQ4[] = {whole(16, 4, 32, 256)};
constexpr BitPlane kQ5[] = {whole(48, 4, 32, 256), whole(16, 1, 32, 256, 4)};
constexpr BitPlane kQ6[] = {whole(0, 4, 64, 256), whole(128, 2, 32, 256, 4)};
constexpr BitPlane kIq4Xs[] = {whole(8, 4, 16, 256)};
constexpr BitPlane kMxfp4[] = {whole(1, 4, 16, 32)};
constexpr BitPlane kTq1[] = {
    {0, 0, 32, 0, 0, 160}, {32, 0, 16, 0, 160, 80}, {48, 0, 4, 0, 240, 16}};
constexpr BitPlane kTq2[] = {whole(0, 2, 32, 256)};

// ---- Levels

constexpr float kNonlinear[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
constexpr float kE2m1[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

// ---- Integers of groups

template <size_t N, typename Of> constexpr std::array<GroupInteger, N> groups(Of of) {
  std::array<GroupInteger, N> result{};
  for (size_t g = 0; g < N; ++g)
    result[g] = of(uint8_t(g));
  return result;
}

/// Eight scales and eight minima of 6 bits in 12 bytes from byte 4 on: the last four of each have
/// their upper bits in those of the first.
constexpr auto kSixBitScales = groups<8>([](uint8_t g) -> GroupInteger {
  if (g < 4)
    return {{uint8_t(4 + g), 0, 63, 0}};
  return {{uint8_t(8 + g), 0, 15, 0}, {uint8_t(g), 6, 3, 4}};
});
constexpr auto kSixBitMinima = groups<8>([](uint8_t g) -> GroupInteger {
  if (g < 4)
    return {{uint8_t(8 + g), 0, 63, 0}};
  return {{uint8_t(8 + g), 4, 15, 0}, {uint8_t(4 + g), 6, 3, 4}};
});
constexpr auto kLowNibbles = groups<16>([](uint8_t g) -> GroupInteger { return {{g, 0, 15, 0}}; });
constexpr auto kHighNibbles = groups<16>([](uint8_t g) -> GroupInteger { return {{g, 4, 15, 0}}; });
/// Sixteen of 6 bits in 12 bytes: nibbles in eight, pairs of upper bits in four.
constexpr auto kQ3Scales = groups<16>([](uint8_t g) -> GroupInteger {
  return {{uint8_t(96 + g % 8), uint8_t(g / 8 * 4), 15, 0},
          {uint8_t(104 + g % 4), uint8_t(g / 4 * 2), 3, 4}};
});
constexpr auto kQ6Scales =
    groups<16>([](uint8_t g) -> GroupInteger { return {{uint8_t(192 + g), 0, 255, 0}}; });
constexpr auto kIq4XsScales = groups<8>([](uint8_t g) -> GroupInteger {
  return {{uint8_t(4 + g / 2), uint8_t(g % 2 * 4), 15, 0},
          {uint8_t(2 + g / 4), uint8_t(g % 4 * 2), 3, 4}};
});

constexpr BlockFormat plain(std::string_view name, DataType type, uint16_t bytes) {
  return {.name = name, .elements = 32, .bytes = uint16_t(32 * bytes), .plain = type, .group = 32};
}

constexpr BlockFormat kFormats[] = {
    plain("f32", DataType::F32, 4),
    plain("f16", DataType::F16, 2),
    plain("bf16", DataType::BF16, 2),
    {.name = "q4_0", .elements = 32, .bytes = 18, .planes = kQ40, .bias = 8, .group = 32},
    {.name = "q4_1", .elements = 32, .bytes = 20, .planes = kQ41, .offsetAt = 2, .group = 32},
    {.name = "q5_0", .elements = 32, .bytes = 22, .planes = kQ50, .bias = 16, .group = 32},
    {.name = "q5_1", .elements = 32, .bytes = 24, .planes = kQ51, .offsetAt = 2, .group = 32},
    {.name = "q8_0", .elements = 32, .bytes = 34, .planes = kQ80, .isSigned = true, .group = 32},
    {.name = "q2_K",
     .elements = 256,
     .bytes = 84,
     .planes = kQ2,
     .scaleAt = 80,
     .offsetAt = 82,
     .offsetSign = -1,
     .group = 16,
     .scales = kLowNibbles,
     .offsets = kHighNibbles},
    {.name = "q3_K",
     .elements = 256,
     .bytes = 110,
     .planes = kQ3,
     .bias = 4,
     .scaleAt = 108,
     .group = 16,
     .scales = kQ3Scales,
     .scaleBias = 32},
    {.name = "q4_K",
     .elements = 256,
     .bytes = 144,
     .planes = kQ4,
     .offsetAt = 2,
     .offsetSign = -1,
     .group = 32,
     .scales = kSixBitScales,
     .offsets = kSixBitMinima},
    {.name = "q5_K",
     .elements = 256,
     .bytes = 176,
     .planes = kQ5,
     .offsetAt = 2,
     .offsetSign = -1,
     .group = 32,
     .scales = kSixBitScales,
     .offsets = kSixBitMinima},
    {.name = "q6_K",
     .elements = 256,
     .bytes = 210,
     .planes = kQ6,
     .bias = 32,
     .scaleAt = 208,
     .group = 16,
     .scales = kQ6Scales,
     .scaleFlip = 128,
     .scaleBias = 128},
    {.name = "iq4_nl",
     .elements = 32,
     .bytes = 18,
     .planes = kQ40,
     .levels = kNonlinear,
     .group = 32},
    {.name = "iq4_xs",
     .elements = 256,
     .bytes = 136,
     .planes = kIq4Xs,
     .levels = kNonlinear,
     .group = 32,
     .scales = kIq4XsScales,
     .scaleBias = 32},
    {.name = "tq1_0",
     .elements = 256,
     .bytes = 54,
     .planes = kTq1,
     .bias = 1,
     .scaleAt = 52,
     .group = 32},
    {.name = "tq2_0",
     .elements = 256,
     .bytes = 66,
     .planes = kTq2,
     .bias = 1,
     .scaleAt = 64,
     .group = 32},
    {.name = "mxfp4",
     .elements = 32,
     .bytes = 17,
     .planes = kMxfp4,
     .levels = kE2m1,
     .scale = BlockScale::E8M0,
     .group = 32},
};

// ---- Affine formats

std::string affineName(int bits, int64_t elements, bool isWide, BlockZero zero) {
  constexpr const char *kZeros[] = {"", "_zero", "_offset"};
  return "int" + std::to_string(bits) + "_" + std::to_string(elements) +
         (isWide ? "_f32" : "_f16") + kZeros[int(zero)];
}

/// Those of the table above; and codes in bytes whose digits are apart, so that a vector of them is
/// unpacked by one shift; then the scale, then what there is of an offset.
class Formats {
public:
  Formats() {
    for (int bits : kAffineBits)
      for (uint16_t elements = 16; elements <= 256; elements *= 2)
        for (BlockScale scale : {BlockScale::F16, BlockScale::F32})
          for (BlockZero zero : {BlockZero::Middle, BlockZero::Byte, BlockZero::Offset})
            add(bits, elements, scale, zero);
  }
  std::vector<BlockFormat> formats{std::begin(kFormats), std::end(kFormats)};

private:
  static BitPlane plane(uint16_t offset, uint8_t bits, uint16_t elements, uint8_t shift) {
    int bytes = elements * bits / 8;
    return whole(offset, bits, uint8_t(std::min(bytes, 64)), elements, shift);
  }

  void add(int bits, uint16_t elements, BlockScale scale, BlockZero zero) {
    bool isWide = scale == BlockScale::F32;
    std::vector<BitPlane> &planes = planes_.emplace_back();
    planes.push_back(plane(0, bits == 3 ? 2 : uint8_t(bits), elements, 0));
    if (bits == 3)
      planes.push_back(plane(elements / 4, 1, elements, 2));
    int scaleAt = elements * bits / 8, end = scaleAt + (isWide ? 4 : 2), more = 0;
    const std::string &name = names_.emplace_back(affineName(bits, elements, isWide, zero));
    if (zero != BlockZero::Middle)
      more = zero == BlockZero::Byte ? 1 : 4;
    formats.push_back({.name = name,
                       .elements = elements,
                       .bytes = uint16_t(end + more),
                       .planes = planes,
                       .bias = uint8_t(more ? 0 : 1 << (bits - 1)),
                       .scale = scale,
                       .scaleAt = uint16_t(scaleAt),
                       .offset = more == 1 ? BlockOffset::Zero : BlockOffset::F32,
                       .offsetAt = int16_t(more ? end : -1),
                       .group = elements});
  }

  std::list<std::string> names_;
  std::list<std::vector<BitPlane>> planes_;
};

const std::vector<BlockFormat> &allFormats() {
  static const Formats all;
  return all.formats;
}

// ---- Reading

unsigned byteAt(const std::byte *block, int at) { return unsigned(block[at]); }

float plainAt(DataType type, const std::byte *from) {
  if (type == DataType::F32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t code = uint16_t(byteAt(from, 0) | byteAt(from, 1) << 8);
  return float(decode(*floatFormat(type), code));
}

unsigned codeAt(const BlockFormat &format, const std::byte *block, int element) {
  unsigned code = 0;
  for (const BitPlane &plane : format.planes) {
    if (element < plane.first || element >= plane.first + plane.count)
      continue;
    unsigned byte = byteAt(block, plane.byteOf(element)), digit = unsigned(plane.digitOf(element));
    if (!plane.bits) { // the byte is a fraction of 256, whose digits come off at its top
      for (; digit > 0; --digit)
        byte = byte * 3 & 255;
      code |= byte * 3 >> 8;
      continue;
    }
    code |= (byte >> (digit * plane.bits) & ((1u << plane.bits) - 1)) << plane.shift;
  }
  return code;
}

unsigned bitsOf(const ScaleBits &bits, const std::byte *block) {
  return (byteAt(block, bits.byte) >> bits.shift & bits.mask) << bits.up;
}
unsigned integerOf(const GroupInteger &group, const std::byte *block) {
  return bitsOf(group.low, block) | bitsOf(group.high, block);
}

double offsetOf(const BlockFormat &format, float scale, const std::byte *from) {
  if (!format.hasOffset())
    return 0;
  if (format.offset == BlockOffset::Zero)
    return -double(scale) * byteAt(from, format.offsetAt);
  bool isWide = format.offset == BlockOffset::F32;
  float offset = plainAt(isWide ? DataType::F32 : DataType::F16, from + format.offsetAt);
  return double(offset * format.offsetSign);
}

} // namespace

std::span<const BlockFormat> blockFormats() { return allFormats(); }

const BlockFormat *findBlockFormat(std::string_view name) {
  const std::vector<BlockFormat> &all = allFormats();
  auto found = std::ranges::find(all, name, &BlockFormat::name);
  return found == all.end() ? nullptr : &*found;
}

const BlockFormat *affineFormat(int bits, int64_t elements, DataType scale, BlockZero zero) {
  if (scale != DataType::F16 && scale != DataType::F32)
    return nullptr;
  return findBlockFormat(affineName(bits, elements, scale == DataType::F32, zero));
}

void decodeBlock(const BlockFormat &format, const std::byte *from, float *to) {
  if (format.plain != DataType::Undefined) {
    for (int i = 0; i < format.elements; ++i)
      to[i] = plainAt(format.plain, from + i * byteSize(format.plain));
    return;
  }
  float scale = 1;
  if (format.scale == BlockScale::F16)
    scale = plainAt(DataType::F16, from + format.scaleAt);
  else if (format.scale == BlockScale::F32)
    scale = plainAt(DataType::F32, from + format.scaleAt);
  else if (format.scale == BlockScale::E8M0)
    scale = float(decodeF8E8M0(uint8_t(from[format.scaleAt])));
  const double offset = offsetOf(format, scale, from);
  for (int i = 0; i < format.elements; ++i) {
    size_t group = size_t(i / format.group);
    float s = scale;
    double o = offset;
    if (!format.scales.empty())
      s *= float(int(integerOf(format.scales[group], from) ^ format.scaleFlip) - format.scaleBias);
    if (!format.offsets.empty())
      o = double(float(o) * float(integerOf(format.offsets[group], from)));
    unsigned code = codeAt(format, from, i);
    double level = !format.levels.empty() ? double(format.levels[code])
                   : format.isSigned      ? double(int8_t(code))
                                          : double(int(code) - format.bias);
    to[i] = float(double(s) * level + o);
  }
}

} // namespace tensmith
