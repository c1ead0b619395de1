// GGUF files as tests write them: piece by piece, and so with any fault.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tensmith {

/// A file, written piece by piece.
class GgufWriter {
public:
  template <typename T> GgufWriter &number(T value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    return *this;
  }
  GgufWriter &text(const std::string &text) {
    number(uint64_t(text.size()));
    bytes += text;
    return *this;
  }
  GgufWriter &start(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    bytes = "GGUF";
    return number(version).number(tensors).number(entries);
  }
  GgufWriter &tensor(const std::string &name, std::vector<uint64_t> sizes, uint32_t type,
                     uint64_t at) {
    text(name).number(uint32_t(sizes.size()));
    for (uint64_t size : sizes)
      number(size);
    return number(type).number(at);
  }
  GgufWriter &data(size_t count) {
    bytes.resize((bytes.size() + 31) / 32 * 32 + count, 'x');
    return *this;
  }
  std::string bytes;
};

/// Some bytes of it replaced by others, drawn.
template <typename Random> std::string damaged(std::string bytes, Random &random) {
  for (uint32_t change = random() % 4 + 1; change > 0; --change) {
    size_t at = random() % bytes.size();
    uint64_t value = random() % 3 ? random() : uint64_t(1) << random() % 64;
    std::memcpy(&bytes[at], &value, std::min<size_t>(size_t(1) << random() % 4, bytes.size() - at));
  }
  return bytes;
}

} // namespace tensmith
