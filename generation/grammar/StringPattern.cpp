// Reading regular expressions by recursive descent; see StringPattern.h.
#include "generation/grammar/StringPattern.h"

#include "files/Failure.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr size_t kMostPattern = 4096;
constexpr int kMostDepth = 50;
constexpr uint32_t kLast = 0x10ffff;

struct Range {
  uint32_t first, last;
};
/// Characters, in any order.
using Characters = std::vector<Range>;

Characters sorted(Characters of) {
  std::ranges::sort(of, {}, &Range::first);
  Characters joined;
  for (const Range &each : of)
    if (!joined.empty() && each.first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, each.last);
    else
      joined.push_back(each);
  return joined;
}

Characters others(const Characters &than) {
  Characters result;
  uint32_t next = 0;
  for (const Range &each : sorted(than)) {
    if (each.first > next)
      result.push_back({next, each.first - 1});
    next = each.last + 1;
  }
  if (next <= kLast)
    result.push_back({next, kLast});
  return result;
}

const Characters kDigits = {{'0', '9'}},
                 kOfWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                 kSpaces = {{9, 13},          {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680},
                            {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                            {0x3000, 0x3000}, {0xfeff, 0xfeff}},
                 kNewlines = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

GrammarSequence literal(std::string_view text) {
  GrammarSequence sequence;
  for (char byte : text)
    sequence.push_back({Bytes256().set(uint8_t(byte)), -1});
  return sequence;
}

/// How JSON writes one of these.
GrammarRule written(const Characters &characters) {
  GrammarRule rule;
  for (const Range &range : sorted(characters)) {
    for (uint32_t c = range.first; c <= std::min(range.last, 0x1fu); ++c) {
      auto at = std::string_view("\b\t\n\f\r").find(char(c));
      rule.push_back(literal(at == std::string_view::npos ? fmt::format("\\u{:04x}", c)
                                                          : std::string{'\\', "btnfr"[at]}));
    }
    uint32_t next = std::max(range.first, 0x20u);
    for (uint32_t escaped : {uint32_t('"'), uint32_t('\\')})
      if (escaped >= next && escaped <= range.last) {
        rule.push_back(literal(std::string{'\\', char(escaped)}));
        if (escaped > next)
          for (GrammarSequence &each : characterRange(next, escaped - 1))
            rule.push_back(std::move(each));
        next = escaped + 1;
      }
    if (next <= range.last)
      for (GrammarSequence &each : characterRange(next, range.last))
        rule.push_back(std::move(each));
  }
  return rule;
}

class Parser {
public:
  Parser(Grammar &grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  int whole() {
    if (text_.size() > kMostPattern)
      failUsage(fmt::format("the schema's 'pattern' has more than {} bytes", kMostPattern));
    int any = grammar_.addRepeated({{{}, ruleOf({{0, kLast}})}}, 0, -1);
    GrammarRule rule;
    do {
      GrammarSequence sequence;
      if (!accept("^"))
        sequence.push_back({{}, any});
      append(sequence, this->sequence(0));
      if (!accept("$"))
        sequence.push_back({{}, any});
      rule.push_back(std::move(sequence));
    } while (accept("|"));
    if (at_ < text_.size())
      fail(fmt::format("'{}' stands where nothing is open, or an anchor in the middle",
                       text_.substr(at_, 1)));
    return grammar_.add(std::move(rule));
  }

private:
  [[noreturn]] void fail(const std::string &what) const {
    failUsage(fmt::format("the schema's 'pattern', byte {}: {}", at_ + 1, what));
  }
  static void append(GrammarSequence &to, const GrammarSequence &part) {
    to.insert(to.end(), part.begin(), part.end());
  }
  bool accept(std::string_view sign) {
    bool is = text_.substr(at_).starts_with(sign);
    at_ += is ? sign.size() : 0;
    return is;
  }
  bool isAt(std::string_view signs) const {
    return at_ < text_.size() && signs.find(text_[at_]) != std::string_view::npos;
  }
  int ruleOf(const Characters &characters) { return grammar_.add(written(characters)); }

  GrammarRule alternatives(int depth) {
    if (depth > kMostDepth)
      fail("groups are nested too deep");
    GrammarRule rule;
    do
      rule.push_back(sequence(depth));
    while (accept("|"));
    return rule;
  }

  GrammarSequence sequence(int depth) {
    GrammarSequence result;
    while (at_ < text_.size() && !isAt("|)$^")) {
      GrammarSequence item = {{{}, this->item(depth)}};
      int64_t least = 1, most = 1;
      if (bounds(least, most)) {
        accept("?"); // which of several matches it is makes no difference
        item = {{{}, grammar_.addRepeated(item, least, most)}};
        if (isAt("*+?{"))
          fail("a repetition is repeated");
      }
      append(result, item);
    }
    return result;
  }

  int item(int depth) {
    if (accept("(")) {
      group();
      int rule = grammar_.add(alternatives(depth + 1));
      if (!accept(")"))
        fail("')' is missing, or an anchor stands in a group");
      return rule;
    }
    if (accept("["))
      return ruleOf(characterClass());
    if (accept("."))
      return ruleOf(others(kNewlines));
    if (isAt("*+?{}]"))
      fail(fmt::format("'{}' follows nothing", text_[at_]));
    return ruleOf(one());
  }

  /// What stands behind '(' of a group that is one.
  void group() {
    if (!accept("?") || accept(":"))
      return;
    if (isAt("=!") || text_.substr(at_).starts_with("<=") || text_.substr(at_).starts_with("<!"))
      fail("what looks ahead or behind can't be kept to here");
    size_t end = text_.find('>', at_);
    if (!accept("<") || end == std::string_view::npos)
      fail("'(?' is followed by ':' or a name");
    at_ = end + 1;
  }

  bool bounds(int64_t &least, int64_t &most) {
    if (accept("*"))
      return least = 0, most = -1, true;
    if (accept("+"))
      return least = 1, most = -1, true;
    if (accept("?"))
      return least = 0, most = 1, true;
    if (!accept("{"))
      return false;
    least = most = number();
    if (accept(","))
      most = isAt("}") ? -1 : number();
    if (!accept("}") || (most >= 0 && most < least))
      fail("a repetition is {m}, {m,} or {m,n}");
    return true;
  }

  int64_t number() {
    int64_t value = 0;
    size_t begin = at_;
    for (; isAt("0123456789") && at_ - begin < 9; ++at_)
      value = value * 10 + (text_[at_] - '0');
    if (at_ == begin || value > Grammar::kMostRepeats)
      fail(fmt::format("a repetition counts from 0 to {}", Grammar::kMostRepeats));
    return value;
  }

  // Characters.

  Characters characterClass() {
    bool isNegated = accept("^");
    Characters all;
    while (!accept("]")) {
      Characters first = one();
      bool isOne = first.size() == 1 && first[0].first == first[0].last;
      if (isAt("-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        Characters last = one();
        if (!isOne || last.size() != 1 || last[0].first != last[0].last ||
            last[0].first < first[0].first)
          fail("a range goes from a character to one that is not before it");
        first = {{first[0].first, last[0].last}};
      }
      all.insert(all.end(), first.begin(), first.end());
    }
    return isNegated ? others(all) : all;
  }

  /// A character, or the class of an escape.
  Characters one() {
    if (at_ >= text_.size())
      fail("it ends in the middle");
    auto lead = uint8_t(text_[at_++]);
    if (lead == '\\')
      return escaped();
    int more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    uint32_t code = more ? lead & (0x3f >> more) : lead;
    for (int i = 0; i < more && at_ < text_.size(); ++i)
      code = code << 6 | (uint8_t(text_[at_++]) & 0x3f);
    return {{code, code}};
  }

  Characters escaped() {
    char c = at_ < text_.size() ? text_[at_++] : ' ';
    auto single = [](uint32_t code) { return Characters{{code, code}}; };
    switch (c) {
    case 'd':
      return kDigits;
    case 'D':
      return others(kDigits);
    case 'w':
      return kOfWords;
    case 'W':
      return others(kOfWords);
    case 's':
      return kSpaces;
    case 'S':
      return others(kSpaces);
    case 'x':
      return single(hexadecimal(2));
    case 'u':
      return single(hexadecimal(4));
    default:
      break;
    }
    auto control = std::string_view("tnvfr").find(c);
    if (control != std::string_view::npos)
      return single(9 + uint32_t(control)); // in this order
    bool isSign = uint8_t(c) < 0x80 && !std::isalnum(uint8_t(c));
    if (!isSign)
      fail(fmt::format("'\\{}' can't be kept to here", c));
    return single(uint8_t(c));
  }

  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      auto digit = at_ < text_.size()
                       ? std::string_view("0123456789abcdef").find(char(text_[at_] | 0x20))
                       : std::string_view::npos;
      if (digit == std::string_view::npos)
        fail(fmt::format("an escape has {} hexadecimal digits", digits));
      value = value << 4 | uint32_t(digit);
    }
    return value;
  }

  Grammar &grammar_;
  std::string_view text_;
  size_t at_ = 0;
};

// ---- Formats (JSON Schema 2020-12, Validation, 7.3)

#define DATE                                                                                       \
  "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"              \
  "02-(0[1-9]|1\\d|2[0-8]))|(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"  \
  "-02-29)"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(\\." LABEL "){0,3}"
#define BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
#define OF_TIME "T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S)"
#define OF_DATE "(\\d{1,9}Y(\\d{1,9}M(\\d{1,9}D)?)?|\\d{1,9}M(\\d{1,9}D)?|\\d{1,9}D)"

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(" OF_DATE "(" OF_TIME ")?|" OF_TIME "|\\d{1,9}W)$"},
    {"uuid", "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"},
    {"ipv4", "^(" BYTE "\\.){3}" BYTE "$"},
    {"hostname", "^" HOST "$"},
    {"email", "^" ATOM "(\\." ATOM "){0,2}@" HOST "$"},
};

} // namespace

int patternRule(Grammar &grammar, std::string_view pattern) {
  return Parser(grammar, pattern).whole();
}

std::string_view patternOfFormat(std::string_view format) {
  for (const auto &[name, pattern] : kFormats)
    if (name == format)
      return pattern;
  return "";
}

} // namespace tensmith::generation
