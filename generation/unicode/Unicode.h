// What tokenizers ask of Unicode: classes of characters, normal forms, clusters, and regular
// expressions with look ahead. ICU answers, from a library of its own that is loaded when a
// tokenizer first needs it: models whose words are cut by code (Words.cpp) do without.
//
// Texts are valid UTF-8; what is not has been replaced before (`validUtf8`).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensmith::generation {

enum class NormalForm { C, D, KC, KD };

/// Used by any number of threads at a time.
class UnicodePattern {
public:
  virtual ~UnicodePattern() = default;
  /// Matches in order, [begin, end) in bytes; one of no length doesn't stand where the last one
  /// ended. False, and why, where the search takes more steps or memory than it may.
  virtual bool matches(std::string_view text, std::vector<std::pair<size_t, size_t>> &to,
                       std::string &failure) const = 0;
};

class Unicode {
public:
  virtual ~Unicode() = default;
  /// The general category: "Lu", "Mn".
  virtual std::string_view category(uint32_t code) const = 0;
  virtual bool isSpace(uint32_t code) const = 0; // White_Space
  virtual uint32_t lower(uint32_t code) const = 0;
  /// A number for each script.
  virtual int script(uint32_t code) const = 0;
  virtual int scriptNamed(const char *name) const = 0;
  virtual std::string normalised(NormalForm form, std::string_view text) const = 0;
  /// Ends of the clusters that readers take for characters.
  virtual std::vector<size_t> clusterEnds(std::string_view text) const = 0;
  /// A pattern in the syntax of Oniguruma, which tokenizer.json has. Null, and why, where it is
  /// none.
  virtual std::unique_ptr<UnicodePattern> pattern(std::string_view source,
                                                  std::string &failure) const = 0;
};

/// Loaded once. Throws Failure where there is none.
const Unicode &unicode();

/// A character that is read, and how many bytes it has. The text is valid UTF-8, and not empty.
struct ReadCharacter {
  uint32_t code;
  size_t bytes;
};
ReadCharacter readCharacter(std::string_view text);
void appendCharacter(std::string &to, uint32_t code);
/// With U+FFFD for what is no UTF-8.
std::string validUtf8(std::string_view text);

template <typename Visit> void eachCharacter(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    ReadCharacter next = readCharacter(text.substr(at));
    visit(next.code, text.substr(at, next.bytes));
    at += next.bytes;
  }
}

// The library's one door.
using OpenUnicode = const Unicode *(*)();
inline constexpr const char *kOpenUnicode = "tensmith_unicode_1";

} // namespace tensmith::generation
