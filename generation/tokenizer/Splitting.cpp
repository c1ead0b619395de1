// Cutting texts by patterns; see Splitting.h.
#include "generation/tokenizer/Splitting.h"

#include "files/Failure.h"
#include "generation/unicode/Unicode.h"

#include <array>
#include <map>

namespace tensmith::generation {
namespace {

/// With what lies between matches.
std::vector<Span> filled(const std::vector<std::pair<size_t, size_t>> &matches, size_t size) {
  std::vector<Span> spans;
  if (!size)
    return spans;
  size_t at = 0;
  for (auto [begin, end] : matches) {
    if (begin > at)
      spans.push_back({at, begin, false});
    spans.push_back({begin, end, true});
    at = end;
  }
  if (at < size)
    spans.push_back({at, size, false});
  return spans;
}

Finder finderOfText(std::string wanted) {
  if (wanted.empty()) // is found before each character, and at the end
    return [](std::string_view text) {
      std::vector<std::pair<size_t, size_t>> matches;
      eachCharacter(text, [&](uint32_t, std::string_view bytes) {
        auto at = size_t(bytes.data() - text.data());
        matches.emplace_back(at, at);
      });
      matches.emplace_back(text.size(), text.size());
      return filled(matches, text.size());
    };
  return [wanted = std::move(wanted)](std::string_view text) {
    std::vector<std::pair<size_t, size_t>> matches;
    for (size_t at = text.find(wanted); at != std::string::npos;
         at = text.find(wanted, at + wanted.size()))
      matches.emplace_back(at, at + wanted.size());
    return filled(matches, text.size());
  };
}

std::vector<Span> merged(std::vector<Span> spans, Behaviour behaviour) {
  if (behaviour == Behaviour::Isolated)
    return spans;
  std::vector<Span> result;
  bool followsMatch = false;
  if (behaviour == Behaviour::MergedWithNext) {
    for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
      if (span->isMatch && !followsMatch && !result.empty())
        result.back().begin = span->begin;
      else
        result.push_back(*span);
      followsMatch = span->isMatch;
    }
    return {result.rbegin(), result.rend()};
  }
  for (const Span &span : spans) {
    bool joins = behaviour == Behaviour::Contiguous
                     ? span.isMatch == followsMatch
                     : behaviour == Behaviour::MergedWithPrevious && span.isMatch && !followsMatch;
    if (behaviour == Behaviour::Removed && span.isMatch)
      continue;
    if (joins && !result.empty())
      result.back().end = span.end;
    else
      result.push_back(span);
    followsMatch = span.isMatch;
  }
  return result;
}

} // namespace

Finder finderOfExpression(const std::string &expression, const JsonPart &of) {
  std::string failure;
  std::shared_ptr<const UnicodePattern> pattern = unicode().pattern(expression, failure);
  if (!pattern)
    of.wrong("is no regular expression that is read: " + failure);
  return [pattern, expression](std::string_view text) {
    std::vector<std::pair<size_t, size_t>> matches;
    std::string why;
    if (!pattern->matches(text, matches, why))
      throw Failure("the tokenizer's pattern '" + expression + "' takes too long for this text (" +
                    why + "); give less of it at a time");
    return filled(matches, text.size());
  };
}

Finder finderOf(const JsonPart &pattern) {
  if (pattern.json().is_string())
    return finderOfText(pattern.asText());
  if (auto expression = pattern.find("Regex"))
    return finderOfExpression(expression->asText(), *expression);
  return finderOfText(pattern.text("String"));
}

Finder finderOfCharacters(std::function<bool(uint32_t)> isOne) {
  return [isOne = std::move(isOne)](std::string_view text) {
    std::vector<std::pair<size_t, size_t>> matches;
    eachCharacter(text, [&](uint32_t code, std::string_view bytes) {
      auto at = size_t(bytes.data() - text.data());
      if (isOne(code))
        matches.emplace_back(at, at + bytes.size());
    });
    return filled(matches, text.size());
  };
}

Behaviour behaviourOf(const JsonPart &text) {
  static const std::map<std::string, Behaviour> kNames = {
      {"Removed", Behaviour::Removed},
      {"Isolated", Behaviour::Isolated},
      {"MergedWithPrevious", Behaviour::MergedWithPrevious},
      {"MergedWithNext", Behaviour::MergedWithNext},
      {"Contiguous", Behaviour::Contiguous}};
  auto found = kNames.find(text.asText());
  if (found == kNames.end())
    text.wrong("is '" + text.asText() + "', which is no behaviour that is known");
  return found->second;
}

void cut(std::vector<TextPiece> &pieces, const Finder &find, Behaviour behaviour, bool isInverted) {
  std::vector<TextPiece> result;
  for (const TextPiece &piece : pieces) {
    std::vector<Span> spans = find(piece.text);
    for (Span &span : spans)
      span.isMatch ^= isInverted;
    for (const Span &span : merged(std::move(spans), behaviour))
      if (span.end > span.begin)
        result.push_back(
            {piece.text.substr(span.begin, span.end - span.begin), piece.isFirst && !span.begin});
  }
  pieces = std::move(result);
}

std::string replacedAll(const Finder &find, std::string_view text, std::string_view by) {
  std::string result;
  for (const Span &span : find(text))
    result += span.isMatch ? by : text.substr(span.begin, span.end - span.begin);
  return result;
}

namespace {

struct Letters {
  std::array<std::string, 256> of;
  std::array<int, 512> bytes{};

  Letters() {
    bytes.fill(-1);
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      bool isPrinted = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      uint32_t code = isPrinted ? byte : next++;
      appendCharacter(of[byte], code);
      bytes[code] = int(byte);
    }
  }
};

const Letters &letters() {
  static const Letters kLetters;
  return kLetters;
}

} // namespace

const std::string &letterOf(uint8_t byte) { return letters().of[byte]; }

int byteOfLetter(uint32_t code) { return code < 512 ? letters().bytes[code] : -1; }

} // namespace tensmith::generation
