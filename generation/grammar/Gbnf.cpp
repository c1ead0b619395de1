// Reading grammars by recursive descent; see Gbnf.h.
#include "generation/grammar/Gbnf.h"

#include "files/Failure.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace tensmith::generation {
namespace {

constexpr size_t kMostText = 65536;
constexpr int kMostDepth = 100;
constexpr uint32_t kLastCharacter = 0x10ffff;

class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  Grammar grammar() {
    if (text_.size() > kMostText)
      failUsage(fmt::format("the grammar has more than {} bytes", kMostText));
    ruleOf("root");
    for (skip(); at_ < text_.size(); skip())
      definition();
    for (const auto &[name, rule] : names_)
      if (!rule.line)
        throw Failure(fmt::format("the grammar: '{}' has no rule", name));
    return std::move(grammar_);
  }

private:
  struct Name {
    int rule = 0, line = 0; // where it is defined; 0: not yet
  };

  [[noreturn]] void fail(const std::string &what) const {
    throw Failure(fmt::format("the grammar, line {}: {}", line(), what));
  }
  int line() const {
    return 1 + int(std::ranges::count(text_.substr(0, std::min(at_, text_.size())), '\n'));
  }
  int ruleOf(const std::string &name) {
    auto [found, isNew] = names_.try_emplace(name);
    if (isNew)
      found->second.rule = grammar_.add();
    return found->second.rule;
  }

  // Characters.

  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
        ++at_;
      else
        return;
    }
  }
  bool accept(std::string_view sign) {
    bool is = text_.substr(at_).starts_with(sign);
    at_ += is ? sign.size() : 0;
    return is;
  }
  static bool isOfName(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  }
  std::string name() {
    size_t begin = at_;
    while (at_ < text_.size() && isOfName(text_[at_]))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  /// Whether a definition begins here.
  bool isDefinition() {
    size_t begin = at_;
    bool is = !name().empty();
    skip();
    is = is && text_.substr(at_).starts_with("::=");
    at_ = begin;
    return is;
  }

  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      auto digit = std::string_view("0123456789abcdef")
                       .find(at_ < text_.size() ? char(text_[at_] | 0x20) : ' ');
      if (digit == std::string_view::npos)
        fail(fmt::format("an escape has {} hexadecimal digits", digits));
      value = value << 4 | uint32_t(digit);
    }
    return value;
  }

  /// The next character of a text or a class.
  uint32_t character() {
    if (at_ >= text_.size())
      fail("a text or a class has no end");
    auto lead = uint8_t(text_[at_++]);
    if (lead == '\\')
      return escaped();
    int more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    uint32_t code = more ? lead & (0x3f >> more) : lead;
    for (int i = 0; i < more; ++i) {
      if (at_ >= text_.size() || (uint8_t(text_[at_]) & 0xc0) != 0x80)
        fail("a character is no UTF-8");
      code = code << 6 | (uint8_t(text_[at_++]) & 0x3f);
    }
    return code;
  }

  uint32_t escaped() {
    char c = at_ < text_.size() ? text_[at_++] : ' ';
    switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'x':
      return hexadecimal(2);
    case 'u':
      return hexadecimal(4);
    case 'U':
      return hexadecimal(8);
    default:
      if (std::string_view("\\\"[]-^").find(c) == std::string_view::npos)
        fail(fmt::format("'\\{}' is no escape", c));
      return uint8_t(c);
    }
  }

  // Rules.

  void definition() {
    std::string name = this->name();
    skip();
    if (name.empty() || !accept("::="))
      fail("a rule is 'name ::= ...'");
    int rule = ruleOf(name);
    if (names_[name].line)
      fail(fmt::format("'{}' has a rule already", name));
    names_[name].line = line();
    GrammarRule alternatives = this->alternatives(0);
    grammar_.rules[size_t(rule)] = std::move(alternatives);
  }

  GrammarRule alternatives(int depth) {
    if (depth > kMostDepth)
      fail("parentheses are nested too deep");
    GrammarRule result;
    do
      result.push_back(sequence(depth));
    while (accept("|"));
    return result;
  }

  GrammarSequence sequence(int depth) {
    GrammarSequence result;
    for (skip(); at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')' && !isDefinition();
         skip()) {
      GrammarSequence item = this->item(depth);
      skip();
      repeat(item);
      result.insert(result.end(), item.begin(), item.end());
    }
    return result;
  }

  GrammarSequence item(int depth) {
    if (accept("\""))
      return literal();
    if (accept("["))
      return oneOf(characterClass());
    if (accept("."))
      return oneOf({{0, kLastCharacter}});
    if (accept("(")) {
      int rule = grammar_.add();
      GrammarRule inside = alternatives(depth + 1);
      grammar_.rules[size_t(rule)] = std::move(inside);
      if (!accept(")"))
        fail("')' is missing");
      return {{{}, rule}};
    }
    std::string name = this->name();
    if (name.empty())
      fail(at_ < text_.size() ? "a text, a class, a name or a parenthesis is missing here"
                              : "the grammar ends in the middle of a rule");
    return {{{}, ruleOf(name)}};
  }

  void repeat(GrammarSequence &item) {
    grammar_.count(1);
    int64_t least = 0, most = -1;
    if (accept("+"))
      least = 1;
    else if (accept("?"))
      most = 1;
    else if (accept("{"))
      std::tie(least, most) = bounds();
    else if (!accept("*"))
      return;
    item = {{{}, grammar_.addRepeated(item, least, most)}};
    skip();
    repeat(item);
  }

  std::pair<int64_t, int64_t> bounds() {
    int64_t least = number(), most = least;
    skip();
    if (accept(",")) {
      skip();
      most = at_ < text_.size() && text_[at_] == '}' ? -1 : number();
    }
    skip();
    if (!accept("}"))
      fail("a repetition is {m}, {m,} or {m,n}");
    return {least, most};
  }

  int64_t number() {
    int64_t value = 0;
    size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && at_ - begin < 9; ++at_)
      value = value * 10 + (text_[at_] - '0');
    if (at_ == begin)
      fail("a repetition is {m}, {m,} or {m,n}");
    return value;
  }

  GrammarSequence literal() {
    GrammarSequence result;
    while (!accept("\"")) {
      uint32_t code = character();
      std::vector<GrammarSequence> bytes = characterRange(code, code);
      if (bytes.empty())
        fail("there is no such character");
      grammar_.count(bytes[0].size());
      result.insert(result.end(), bytes[0].begin(), bytes[0].end());
    }
    return result;
  }

  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

  Ranges characterClass() {
    bool isInverse = accept("^");
    Ranges ranges;
    while (!accept("]")) {
      uint32_t first = character(), last = first;
      if (text_.substr(at_).starts_with("-") && !text_.substr(at_).starts_with("-]"))
        ++at_, last = character();
      if (last < first || last > kLastCharacter)
        fail("a range of characters goes from the lower to the higher");
      ranges.push_back({first, last});
    }
    return isInverse ? inverse(ranges) : ranges;
  }

  static Ranges inverse(Ranges ranges) {
    std::ranges::sort(ranges);
    Ranges result;
    uint32_t next = 0;
    for (auto [first, last] : ranges) {
      if (first > next)
        result.push_back({next, first - 1});
      next = std::max(next, last + 1);
    }
    if (next <= kLastCharacter)
      result.push_back({next, kLastCharacter});
    return result;
  }

  GrammarSequence oneOf(const Ranges &ranges) {
    GrammarRule alternatives;
    for (auto [first, last] : ranges)
      for (GrammarSequence &each : characterRange(first, last))
        alternatives.push_back(std::move(each));
    if (alternatives.empty())
      fail("a class has no characters");
    return {{{}, grammar_.add(std::move(alternatives))}};
  }

  std::string_view text_;
  size_t at_ = 0;
  Grammar grammar_;
  std::map<std::string, Name> names_;
};

} // namespace

Grammar parseGbnf(std::string_view text) { return Parser(text).grammar(); }

} // namespace tensmith::generation
