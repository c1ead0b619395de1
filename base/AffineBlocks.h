// Weights that others keep as codes, scales and zero points apart, as blocks of one of our affine
// formats (BlockFormats.h): number (n, k) is scale(n, g) * (code(n, k) - zero(n, g)), where g is
// the group of column k.
//
// A group's columns become neighbours, if they aren't, by an order in which what is multiplied has
// to be gathered. A group that is longer than the largest block is several blocks of one scale, and
// columns that the last block lacks are codes for zero.
#pragma once

#include "base/BlockFormats.h"

#include <functional>
#include <optional>
#include <vector>

namespace tensmith {

struct AffineWeights {
  int64_t rows = 0, columns = 0, group = 0; // the columns of a group
  int bits = 0;
  DataType scaleType = DataType::F32; // F16 or F32, in which scales are exact
  std::function<unsigned(int64_t row, int64_t column)> code = {};
  std::function<float(int64_t row, int64_t group)> scale = {}, zero = {};
};

struct AffineBlocks {
  const BlockFormat *format = nullptr; // null: there is none for that group or those bits
  std::vector<std::byte> bytes;        // [rows, rowBytes]
  int64_t rowBytes = 0, columns = 0;   // of whole blocks
};

/// `order`: of the column that stands at each place; empty: as they are.
AffineBlocks affineBlocks(const AffineWeights &weights, std::span<const int64_t> order = {});

/// The order that makes the columns of each group neighbours, of the group of each column; empty
/// where they are. Nothing where a group has another number of columns than `group`, but the last.
std::optional<std::vector<int64_t>> orderOfGroups(std::span<const int64_t> groups, int64_t group);

/// Code number `index` of a stream of bits, the lowest first.
unsigned codeOfStream(std::span<const std::byte> bytes, int64_t index, int bits);

} // namespace tensmith
