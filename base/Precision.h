// What a compilation may round.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tensmith {

/// Numbered as ts_precision is.
enum class Precision : uint8_t {
  Fast,   // algorithms with fewer operations, whose sums round differently
  Exact,  // the products and sums of the model's own operators
  Bfloat, // operands of products with weights may be bf16; of training, factors of all products
  Half,   // of training alone: the same in f16, with a scaled loss
};
inline constexpr std::array<std::string_view, 4> kPrecisionNames = {"fast", "exact", "bf16", "f16"};

} // namespace tensmith
