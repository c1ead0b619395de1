// SentencePiece's table of replacements; see Normalizers.h.
//
// Each cluster that has an entry is replaced as a whole, and otherwise its characters that have
// one. The table is from outside: no step leaves it.
#include "generation/tokenizer/Normalizers.h"

#include "generation/unicode/Unicode.h"

#include <cstring>
#include <memory>
#include <optional>

namespace tensmith::generation {
namespace {

constexpr size_t kLongestCluster = 5; // bytes, of those that are looked up whole

class Charsmap {
public:
  Charsmap(std::string table, const JsonPart &of) : bytes_(std::move(table)) {
    uint32_t size = 0;
    if (bytes_.size() < sizeof size)
      of.wrong("is too short for a table");
    std::memcpy(&size, bytes_.data(), sizeof size);
    if (size % 4 || size > bytes_.size() - sizeof size)
      of.wrong("is cut off");
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes_.data() + sizeof size, size);
    texts_ = std::string_view(bytes_).substr(sizeof size + size);
  }
  Charsmap(const Charsmap &) = delete;
  Charsmap &operator=(const Charsmap &) = delete;

  void replace(std::string &text) const {
    std::string result;
    size_t begin = 0;
    for (size_t end : unicode().clusterEnds(text)) {
      std::string_view cluster = std::string_view(text).substr(begin, end - begin);
      auto whole = cluster.size() <= kLongestCluster ? find(cluster) : std::nullopt;
      if (whole)
        result += *whole;
      else
        eachCharacter(cluster, [&](uint32_t, std::string_view character) {
          result += find(character).value_or(character);
        });
      begin = end;
    }
    text = std::move(result);
  }

private:
  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

  /// The text of the shortest entry that `key` begins with.
  std::optional<std::string_view> find(std::string_view key) const {
    if (units_.empty())
      return std::nullopt;
    size_t node = offset(units_[0]);
    for (char letter : key) {
      auto byte = uint8_t(letter);
      if (!byte)
        return std::nullopt;
      node ^= byte;
      if (node >= units_.size() || (units_[node] & ((1u << 31) | 0xff)) != byte)
        return std::nullopt;
      bool isEntry = units_[node] >> 8 & 1;
      node ^= offset(units_[node]);
      if (isEntry)
        return node < units_.size() ? textAt(units_[node] & ~(1u << 31)) : std::nullopt;
    }
    return std::nullopt;
  }
  std::optional<std::string_view> textAt(size_t place) const {
    size_t end = place < texts_.size() ? texts_.find('\0', place) : std::string_view::npos;
    if (end == std::string_view::npos)
      return std::nullopt;
    return texts_.substr(place, end - place);
  }

  std::string bytes_;
  std::vector<uint32_t> units_;
  std::string_view texts_;
};

} // namespace

Normalizer charsmapNormalizer(std::string table, const JsonPart &of) {
  unicode(); // a failure is the file's, not the first text's
  auto map = std::make_shared<const Charsmap>(std::move(table), of);
  return [map](std::string &text) {
    map->replace(text);
    text = validUtf8(text);
  };
}

} // namespace tensmith::generation
