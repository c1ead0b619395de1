// The formats of keys and values; see CacheFormat.h.
#include "generation/CacheFormat.h"

#include "files/Failure.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace tensmith::generation {

CacheFormat cacheFormatOf(const std::string &name, const Architecture &of,
                          const std::string &file) {
  constexpr std::array<std::string_view, 4> kKnown = {"f32", "f16", "q8_0", "q4_0"};
  if (std::ranges::find(kKnown, name) == kKnown.end())
    failUsage("keys and values are kept as f32, f16, q8_0 or q4_0, not as '" + name + "'");
  bool isFloat = name == "f32" || name == "f16";
  CacheFormat format{isFloat ? nullptr : findBlockFormat(name), name == "f16", of.keyHeads,
                     of.headSize};
  if (format.blocks && of.headSize % format.blocks->elements)
    fail(file,
         fmt::format("has heads of {} numbers, which are no whole blocks of {}; keep its keys "
                     "and values as f32 or f16",
                     of.headSize, format.blocks->elements));
  return format;
}

Tensor CacheFormat::view(std::byte *at, std::vector<int64_t> outer) const {
  outer.push_back(heads);
  outer.push_back(rowOfHead());
  ts_tensor *handle = nullptr;
  detail::check(
      ts_tensor_borrow(type(), outer.data(), outer.size(), at, nullptr, nullptr, &handle));
  return Tensor(handle);
}

} // namespace tensmith::generation
