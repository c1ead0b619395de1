// What to do with a tensor whose shape isn't the one that is expected: most often it is a picture
// with its channels at the other end, a sample without its batch, or a picture of another size.
//
// Only for messages: a hint is given where one thing would make the tensor fit, and nothing else is
// said.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tensmith {

/// Of an expected dimension: any size.
inline constexpr int64_t kOpenSize = -1;

/// "; its channels come last, and must come first: transpose it to 1x3x224x224", or nothing.
std::string shapeHint(std::span<const int64_t> expected, std::span<const int64_t> given);

} // namespace tensmith
