// Ranges of integers; see IntegerRange.h.
//
// Numbers of as many digits from a to b share a beginning. Where they part, the first digit is a's
// and the others from a's on, or b's and the others up to b's, or one between and any others.
#include "generation/grammar/IntegerRange.h"

#include <algorithm>
#include <string>

namespace tensmith::generation {
namespace {

GrammarItem digits(char first, char last) {
  GrammarItem item;
  for (char digit = first; digit <= last; ++digit)
    item.bytes.set(uint8_t(digit));
  return item;
}

/// Digits from `least` to `most`, which are as many.
void append(Grammar &grammar, GrammarSequence begin, const std::string &least,
            const std::string &most, GrammarRule &rule) {
  size_t size = least.size();
  if (least == std::string(size, '0') && most == std::string(size, '9')) {
    begin.insert(begin.end(), size, digits('0', '9'));
    grammar.count(begin.size());
    rule.push_back(std::move(begin));
    return;
  }
  auto with = [&](char first, char last) {
    GrammarSequence longer = begin;
    longer.push_back(digits(first, last));
    return longer;
  };
  char a = least[0], b = most[0];
  std::string restOfLeast = least.substr(1), restOfMost = most.substr(1);
  if (a == b)
    return append(grammar, with(a, a), restOfLeast, restOfMost, rule);
  std::string zeros(size - 1, '0'), nines(size - 1, '9');
  bool isWholeFirst = restOfLeast == zeros, isWholeLast = restOfMost == nines;
  if (!isWholeFirst)
    append(grammar, with(a, a), restOfLeast, nines, rule);
  char first = isWholeFirst ? a : char(a + 1), last = isWholeLast ? b : char(b - 1);
  if (first <= last)
    append(grammar, with(first, last), zeros, nines, rule);
  if (!isWholeLast)
    append(grammar, with(b, b), zeros, restOfMost, rule);
}

/// Numbers that are not below 0, behind a sign.
void appendNumbers(Grammar &grammar, const GrammarSequence &sign, int64_t least, int64_t most,
                   GrammarRule &rule) {
  for (int64_t power = 1; least <= most; power *= 10) {
    int64_t last = std::min(most, power * 10 - 1);
    if (least > last)
      continue;
    append(grammar, sign, std::to_string(least), std::to_string(last), rule);
    least = last + 1;
  }
}

} // namespace

int integerRule(Grammar &grammar, int64_t least, int64_t most) {
  GrammarRule rule;
  if (least < 0)
    appendNumbers(grammar, {digits('-', '-')}, std::max<int64_t>(1, -most), -least, rule);
  if (most >= 0)
    appendNumbers(grammar, {}, std::max<int64_t>(0, least), most, rule);
  return grammar.add(std::move(rule));
}

} // namespace tensmith::generation
