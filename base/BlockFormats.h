// Numbers in blocks of few bits, as files of language models have them: what each format is, as
// data.
//
// A block holds so many numbers, packed, and what scales them. Number i is
//
//     scale(i) * level(code(i)) + offset(i)
//
// where the code is put together of bits that lie in one or more planes of bytes, its level is the
// code less a bias, or an entry of a short table, and scale and offset are those of the block,
// times small integers of each group in it. All formats lay their planes and their
// groups' integers out by the same few rules, so one reader serves them (decodeBlock), and so does
// one emitter of vector code (compiler/targets/cpu/templates/BlockCodes.h).
//
// A row of a matrix is a whole number of blocks. Sources: the layouts of GGUF's quantised types
// (ggml), the OCP specification "Microscaling Formats" (MXFP4), BitNet's ternary packing (TQ).
//
// Affine formats are those of weights whose codes, scales and zero points other formats keep apart
// (ONNX Runtime's MatMulNBits, GPTQ, AWQ): they are put together into blocks as they are read.
#pragma once

#include "base/DataType.h"

#include <span>
#include <string_view>

namespace tensmith {

/// Bits of the codes of elements [first, first + count): element first + i has digit
/// i % (span * digits) / span of byte
/// offset + i / (span * digits) * span + i % span.
struct BitPlane {
  uint16_t offset; // in the block, in bytes
  uint8_t bits;    // of a digit; 0: a digit is one of three, kept as a fraction of 256
  uint8_t span;    // bytes whose same digit are neighbours
  uint8_t shift;   // of the digit in the code
  uint16_t first, count;

  int digits() const { return bits ? 8 / bits : count / span; }
  int byteOf(int element) const {
    int i = element - first, chunk = span * digits();
    return offset + i / chunk * span + i % chunk % span;
  }
  int digitOf(int element) const { return (element - first) % (span * digits()) / span; }
};

/// (block[byte] >> shift) & mask, moved up: a part of a group's integer.
struct ScaleBits {
  uint8_t byte = 0, shift = 0, mask = 0, up = 0;
};
struct GroupInteger {
  ScaleBits low, high = {};
};

/// How the block's own scale is kept.
enum class BlockScale : uint8_t { One, F16, F32, E8M0 };
/// What its offset is: a number, or a byte, the code that stands for zero.
enum class BlockOffset : uint8_t { F16, F32, Zero };

struct BlockFormat {
  std::string_view name; // "q4_K"
  uint16_t elements, bytes;
  /// Not Undefined: the numbers are of that type, and all below is not there.
  DataType plain = DataType::Undefined;
  std::span<const BitPlane> planes = {};
  bool isSigned = false;              // codes of 8 bits are
  uint8_t bias = 0;                   // of the codes
  std::span<const float> levels = {}; // empty: level = code - bias
  BlockScale scale = BlockScale::F16;
  uint16_t scaleAt = 0;
  BlockOffset offset = BlockOffset::F16;
  int16_t offsetAt = -1; // -1: there is none
  float offsetSign = 1;
  uint16_t group = 0; // elements; all of the block where that is not divided
  std::span<const GroupInteger> scales = {}, offsets = {}; // of each group; empty: 1
  uint8_t scaleFlip = 0, scaleBias = 0; // an integer s stands for (s ^ flip) - bias

  int groups() const { return elements / group; }
  bool hasOffset() const { return offsetAt >= 0; }
};

/// All that there are.
std::span<const BlockFormat> blockFormats();
/// Null where there is none of that name.
const BlockFormat *findBlockFormat(std::string_view name);

/// What an affine format has beside codes: nothing, where the middle one stands for zero, a byte of
/// the one that does, or an f32 that is added.
enum class BlockZero : uint8_t { Middle, Byte, Offset };
/// Bits of an affine format's codes.
inline constexpr int kAffineBits[] = {2, 3, 4, 8};
/// Codes of so many bits in blocks of 16 to 256, a power of two, with a scale in f16 or f32.
/// Null where there is none.
const BlockFormat *affineFormat(int bits, int64_t elements, DataType scale, BlockZero zero);

/// Writes the `elements` numbers of the block at `from`, rounded once.
void decodeBlock(const BlockFormat &format, const std::byte *from, float *to);

} // namespace tensmith
