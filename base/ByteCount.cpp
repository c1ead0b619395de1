// Reading numbers of bytes; see ByteCount.h.
#include "base/ByteCount.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

namespace tensmith {
namespace {

/// Of "", "b", "kb", "mib", in small letters; 0 of what is none.
double unitNamed(std::string_view name) {
  if (name.ends_with('b'))
    name.remove_suffix(1);
  if (name.empty())
    return 1;
  constexpr std::string_view kPowers = "kmgt";
  size_t power = kPowers.find(name[0]);
  bool isBinary = name.size() == 2 && name[1] == 'i';
  if (power == kPowers.npos || (name.size() > 1 && !isBinary))
    return 0;
  double unit = 1;
  for (size_t i = 0; i <= power; ++i)
    unit *= isBinary ? 1024 : 1000;
  return unit;
}

} // namespace

std::optional<int64_t> parseByteCount(std::string_view text) {
  double number = 0;
  auto [at, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isdigit(static_cast<unsigned char>(text[0])))
    return std::nullopt;
  std::string name(at, text.data() + text.size());
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  double bytes = number * unitNamed(name);
  if (unitNamed(name) == 0 || bytes >= 0x1p63)
    return std::nullopt;
  return int64_t(bytes);
}

} // namespace tensmith
