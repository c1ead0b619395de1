// Cutting a text into words. The patterns that models publish are regular expressions over
// Unicode's classes with a look ahead, of one structure with a few differences (WordPattern), which
// is written here as what it matches.
#include "generation/Tokenizer.h"

#include <algorithm>
#include <array>
#include <span>

namespace tensmith::generation {
namespace {

struct Range {
  uint32_t first, last;
};
#include "CharacterClasses.inc"

bool isIn(std::span<const Range> ranges, uint32_t code) {
  auto after = std::ranges::upper_bound(ranges, code, {}, &Range::first);
  return after != ranges.begin() && code <= (after - 1)->last;
}

bool isSpace(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

/// The characters of a text with where each begins; what is no UTF-8 is a character a byte.
class Characters {
public:
  explicit Characters(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      starts_.push_back(at);
      at += decode(text.substr(at));
    }
    starts_.push_back(text.size());
  }
  size_t size() const { return codes_.size(); }
  size_t start(size_t i) const { return starts_[i]; }
  bool has(size_t i) const { return i < codes_.size(); }
  uint32_t operator[](size_t i) const { return has(i) ? codes_[i] : 0; }
  bool isLetter(size_t i) const { return has(i) && isIn(kLetters, codes_[i]); }
  bool isNumber(size_t i) const { return has(i) && isIn(kNumbers, codes_[i]); }
  bool isSpace(size_t i) const { return has(i) && generation::isSpace(codes_[i]); }
  bool isNewline(size_t i) const { return has(i) && (codes_[i] == '\n' || codes_[i] == '\r'); }
  bool isSign(size_t i) const { return has(i) && !isLetter(i) && !isNumber(i) && !isSpace(i); }

private:
  size_t decode(std::string_view text) {
    auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : 0u; };
    uint32_t first = byte(0);
    size_t length = first < 0x80       ? 1
                    : first >> 5 == 6  ? 2
                    : first >> 4 == 14 ? 3
                    : first >> 3 == 30 ? 4
                                       : 1;
    uint32_t code = length == 1 ? first : first & (0x7f >> length);
    for (size_t i = 1; i < length; ++i) {
      if (byte(i) >> 6 != 2) {
        length = 1, code = 0xfffd;
        break;
      }
      code = code << 6 | (byte(i) & 63);
    }
    codes_.push_back(first >= 0x80 && length == 1 ? 0xfffd : code);
    return length;
  }

  std::vector<uint32_t> codes_;
  std::vector<size_t> starts_;
};

/// How many characters a contraction behind an apostrophe has; 0: it is none.
size_t contraction(const Characters &c, size_t at, bool ignoresCase) {
  if (c[at] != '\'')
    return 0;
  auto letter = [&](size_t i) { return ignoresCase && c[i] < 128 ? c[i] | 32 : c[i]; };
  uint32_t first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd')
    return 2;
  bool isLong = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                (first == 'l' && second == 'l');
  return isLong ? 3 : 0;
}

/// Where the word that begins at `at` ends.
size_t wordEnd(const WordPattern &p, const Characters &c, size_t at) {
  if (size_t length = contraction(c, at, p.ignoresCase))
    return at + length;
  auto letters = [&](size_t i) {
    while (c.isLetter(i))
      ++i;
    return i;
  };
  bool mayLead =
      p.letterPrefix ? !c.isNewline(at) && !c.isLetter(at) && !c.isNumber(at) : c[at] == ' ';
  if (c.isLetter(at) || (mayLead && c.isLetter(at + 1)))
    return letters(at + 1);
  size_t digits = at + (!p.mostDigits && c[at] == ' ' ? 1 : 0);
  if (c.isNumber(digits)) {
    size_t end = digits + 1;
    while (c.isNumber(end) && (!p.mostDigits || end - digits < size_t(p.mostDigits)))
      ++end;
    return end;
  }
  size_t sign = at + (c[at] == ' ' ? 1 : 0);
  if (c.isSign(sign)) {
    while (c.isSign(sign))
      ++sign;
    while (p.newlinesApart && c.isNewline(sign))
      ++sign;
    return sign;
  }
  size_t end = at, newline = at;
  for (; c.isSpace(end); ++end)
    if (c.isNewline(end))
      newline = end + 1;
  if (p.newlinesApart && newline > at)
    return newline;
  // The last space belongs to the word behind it.
  return c.has(end) && end > at + 1 ? end - 1 : std::max(end, at + 1);
}

} // namespace

std::vector<std::string_view> words(const WordPattern &pattern, std::string_view text) {
  Characters characters(text);
  std::vector<std::string_view> result;
  for (size_t at = 0; at < characters.size();) {
    size_t end = std::min(wordEnd(pattern, characters, at), characters.size());
    result.push_back(
        text.substr(characters.start(at), characters.start(end) - characters.start(at)));
    at = end;
  }
  return result;
}

} // namespace tensmith::generation
