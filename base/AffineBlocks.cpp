// Codes, scales and zero points to blocks; see AffineBlocks.h.
#include "base/AffineBlocks.h"

#include "base/BlockEncoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace tensmith {
namespace {

constexpr int64_t kTogether = 16; // words of 32 bits in a cache line

/// The least that holds all zero points.
BlockZero zeroOf(const AffineWeights &weights, int64_t groups) {
  bool isMiddle = true, isByte = true;
  for (int64_t row = 0; row < weights.rows; ++row)
    for (int64_t group = 0; group < groups; ++group) {
      float zero = weights.zero(row, group);
      isMiddle &= zero == float(1 << (weights.bits - 1));
      isByte &= zero >= 0 && zero <= 255 && zero == std::floor(zero);
    }
  return isMiddle ? BlockZero::Middle : isByte ? BlockZero::Byte : BlockZero::Offset;
}

} // namespace

AffineBlocks affineBlocks(const AffineWeights &weights, std::span<const int64_t> order) {
  constexpr int64_t kLeast = 16, kMost = 256;
  AffineBlocks blocks;
  if (weights.group < 1)
    return blocks;
  int64_t groups = (weights.columns + weights.group - 1) / weights.group;
  int64_t elements = std::gcd(weights.group, kMost);
  if (groups == 1)
    elements = std::gcd(weights.columns, kMost);
  if (groups == 1 && elements < kLeast) // the last block lacks some
    elements = std::clamp(int64_t(std::bit_ceil(uint64_t(weights.columns))), kLeast, kMost);
  blocks.format = affineFormat(weights.bits, elements, weights.scaleType, zeroOf(weights, groups));
  if (!blocks.format)
    return blocks;
  int64_t count = (weights.columns + elements - 1) / elements;
  blocks.columns = count * elements;
  blocks.rowBytes = count * blocks.format->bytes;
  blocks.bytes.resize(size_t(weights.rows * blocks.rowBytes));
  std::vector<uint8_t> codes(static_cast<size_t>(elements));
  auto putOne = [&](int64_t row, int64_t first) {
    int64_t group = first / weights.group;
    float zero = weights.zero(row, group);
    auto behind =
        uint8_t(std::isnan(zero) ? 0 : std::clamp(zero, 0.0f, float((1 << weights.bits) - 1)));
    for (int64_t i = 0; i < elements; ++i) {
      int64_t at = first + i;
      codes[size_t(i)] = at < weights.columns
                             ? uint8_t(weights.code(row, order.empty() ? at : order[size_t(at)]))
                             : behind;
    }
    putBlock(*blocks.format, codes, weights.scale(row, group), zero,
             blocks.bytes.data() + row * blocks.rowBytes + first / elements * blocks.format->bytes);
  };
  // Several rows by turns: some have their codes side by side, a row's far apart (GPTQ).
  for (int64_t top = 0; top < weights.rows; top += kTogether)
    for (int64_t first = 0; first < blocks.columns; first += elements)
      for (int64_t row = top; row < std::min(top + kTogether, weights.rows); ++row)
        putOne(row, first);
  return blocks;
}

std::optional<std::vector<int64_t>> orderOfGroups(std::span<const int64_t> groups, int64_t group) {
  std::vector<int64_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t column) { return groups[size_t(column)]; });
  for (size_t at = 0; at < order.size(); ++at)
    if (groups[size_t(order[at])] != int64_t(at) / group)
      return std::nullopt;
  if (std::ranges::is_sorted(order))
    order.clear();
  return order;
}

unsigned codeOfStream(std::span<const std::byte> bytes, int64_t index, int bits) {
  auto first = size_t(index * bits), byte = first / 8;
  unsigned word = unsigned(bytes[byte]);
  if (byte + 1 < bytes.size())
    word |= unsigned(bytes[byte + 1]) << 8;
  return word >> first % 8 & ((1u << bits) - 1);
}

} // namespace tensmith
