// Numbers to blocks of few bits, for formats whose one scale is a block's own: q4_0, q5_0, q8_0;
// and blocks of codes that others have chosen.
//
// The scale is such that the number of the largest magnitude has the last level on its side, so
// that a code errs by half of a scale at most; where levels are not symmetric (q4_0 has -8 to 7),
// that number takes the side with one more. Others of the other side beyond the last level are cut
// to it.
#pragma once

#include "base/BlockFormats.h"

namespace tensmith {

/// Whether `encodeBlock` writes it. Plain numbers are rounded.
bool canEncode(const BlockFormat &format);
/// Writes the block at `to` of the `elements` numbers at `from`. Those that are no number count as
/// 0, infinite ones as the largest that the format's scale takes.
void encodeBlock(const BlockFormat &format, const float *from, std::byte *to);
/// Writes a block of an affine format, of codes below 2^bits and their scale. `zero`: the code that
/// stands for zero, which is a whole one where the format keeps a byte, and the middle one where it
/// keeps none.
void putBlock(const BlockFormat &format, std::span<const uint8_t> codes, float scale, float zero,
              std::byte *to);
/// A row of whole blocks.
void encodeRow(const BlockFormat &format, std::span<const float> from, std::byte *to);

} // namespace tensmith
