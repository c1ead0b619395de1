// Packing keys and values; see CacheFormat.h.
#include "generation/CacheFormat.h"

#include "base/BlockEncoding.h"
#include "base/Float.h"
#include "files/Failure.h"

#include <algorithm>
#include <array>
#include <cstring>
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

void CacheFormat::store(int64_t tokens, const float *values, const float *scales,
                        std::byte *to) const {
  if (!isPacked()) {
    std::memcpy(to, values, size_t(tokens * bytesOfToken()));
    return;
  }
  if (isHalf) {
    const FloatFormat &half = *floatFormat(DataType::F16);
    for (int64_t i = 0; i < tokens * floatsOfToken(); ++i) {
      uint16_t code = encode(half, double(values[i]), false);
      std::memcpy(to + 2 * i, &code, sizeof code);
    }
    return;
  }
  for (int64_t block = 0; block < tokens * heads * blocksOfHead(); ++block) {
    const float *from = values + block * blocks->elements;
    std::byte *at = to + block * blocks->bytes;
    encodeBlockBy(*blocks, scales[block], from, at);
  }
}

Tensor CacheFormat::view(std::byte *at, std::vector<int64_t> outer) const {
  outer.push_back(heads);
  outer.push_back(rowOfHead());
  ts_tensor *handle = nullptr;
  detail::check(
      ts_tensor_borrow(type(), outer.data(), outer.size(), at, nullptr, nullptr, &handle));
  return Tensor(handle);
}

void CacheNews::addTo(std::vector<Tensor> &outputs, const CacheFormat &format, int64_t tokens) {
  values.resize(size_t(tokens * format.floatsOfToken()));
  scales.resize(size_t(tokens * format.scalesOfToken()));
  outputs.push_back(Tensor::borrow(values.data(), {tokens, format.heads, format.size}));
  if (format.isScaled())
    outputs.push_back(Tensor::borrow(scales.data(), {tokens, format.heads, format.blocksOfHead()}));
}

} // namespace tensmith::generation
