// Numbers of bytes as people write them: "2GiB", "1.5 MB", "4096". k, M, G, T stand for powers of
// 1000, and with an i for powers of 1024; letters' case is free.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tensmith {

/// Below 2^63, fractions of a byte cut off; null of what is no such number.
std::optional<int64_t> parseByteCount(std::string_view text);

} // namespace tensmith
