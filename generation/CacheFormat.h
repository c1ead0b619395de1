// How keys and values of former tokens are kept: as f32 or f16, or in one of base/BlockFormats.h
// with scales, a row of whole blocks for each head.
//
// A graph takes them and gives new ones as they are kept, bytes of blocks where that is in blocks.
// It rounds each number before anything reads it, so that a token sees the same numbers whether a
// key was computed by the same run or is read from the cache.
#pragma once

#include "base/BlockFormats.h"
#include "generation/Architecture.h"

#include <tensmith/tensmith.hpp>

namespace tensmith::generation {

struct CacheFormat {
  const BlockFormat *blocks = nullptr; // null: floats
  bool isHalf = false;                 // of which 16 bits are kept, and not 32
  int64_t heads = 0, size = 0;         // of keys

  ts_type type() const { return blocks ? TS_U8 : isHalf ? TS_F16 : TS_F32; }
  /// Elements of that type which a head takes.
  int64_t rowOfHead() const { return blocks ? bytesOfHead() : size; }
  int64_t blocksOfHead() const { return blocks ? size / blocks->elements : 0; }
  int64_t bytesOfHead() const {
    return blocks ? blocksOfHead() * blocks->bytes : size * (isHalf ? 2 : 4);
  }
  int64_t bytesOfToken() const { return heads * bytesOfHead(); }

  /// A view of what is kept, [outer..., heads, rowOfHead].
  Tensor view(std::byte *at, std::vector<int64_t> outer) const;
};

/// By its name: f32, f16, q8_0 or q4_0. Throws Failure where it is none, or heads are no whole
/// blocks of the last two.
CacheFormat cacheFormatOf(const std::string &name, const Architecture &of, const std::string &file);

} // namespace tensmith::generation
