// How keys and values of former tokens are kept: as f32 or f16, or in one of base/BlockFormats.h
// with scales, a row of whole blocks for each head.
//
// A graph gives them rounded as they are kept already, with the scales of their blocks, so that a
// token sees the same numbers whether a key was computed by the same run or is read from the cache;
// here they are only packed. It reads blocks by `block_values`.
#pragma once

#include "base/BlockFormats.h"
#include "generation/Architecture.h"

#include <tensmith/tensmith.hpp>

namespace tensmith::generation {

struct CacheFormat {
  const BlockFormat *blocks = nullptr; // null: floats
  bool isHalf = false;                 // of which 16 bits are kept, and not 32
  int64_t heads = 0, size = 0;         // of keys

  bool isScaled() const { return blocks; }
  /// Whether they are kept otherwise than a run gives them.
  bool isPacked() const { return blocks || isHalf; }
  /// What a graph sees of them, in rows of so many for each head.
  ts_type type() const { return blocks ? TS_U8 : isHalf ? TS_F16 : TS_F32; }
  int64_t rowOfHead() const { return blocks ? bytesOfHead() : size; }
  int64_t blocksOfHead() const { return blocks ? size / blocks->elements : 0; }
  int64_t bytesOfHead() const {
    return blocks ? blocksOfHead() * blocks->bytes : size * (isHalf ? 2 : 4);
  }
  int64_t bytesOfToken() const { return heads * bytesOfHead(); }
  int64_t floatsOfToken() const { return heads * size; }
  int64_t scalesOfToken() const { return isScaled() ? heads * blocksOfHead() : 0; }

  /// Packs `tokens` rows, which are rounded already.
  void store(int64_t tokens, const float *values, const float *scales, std::byte *to) const;
  /// A view of what is kept, [outer..., heads, size], or bytes of heads.
  Tensor view(std::byte *at, std::vector<int64_t> outer) const;
};

/// By its name: f32, f16, q8_0 or q4_0. Throws Failure where it is none, or heads are no whole
/// blocks of the last two.
CacheFormat cacheFormatOf(const std::string &name, const Architecture &of, const std::string &file);

/// What a run gives of some tokens: keys or values, and scales of their blocks.
struct CacheNews {
  std::vector<float> values, scales;

  /// Where the run is to put them, of so many tokens.
  void addTo(std::vector<Tensor> &outputs, const CacheFormat &format, int64_t tokens);
};

} // namespace tensmith::generation
