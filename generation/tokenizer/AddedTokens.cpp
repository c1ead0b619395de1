// Finding tokens by their names; see AddedTokens.h.
#include "generation/tokenizer/AddedTokens.h"

#include "generation/unicode/Unicode.h"

#include <fmt/format.h>

namespace tensmith::generation {
namespace {

AddedToken addedTokenOf(const JsonPart &part) {
  AddedToken token;
  token.content = part.text("content");
  int64_t number = part.integer("id");
  if (number < 0 || number > INT32_MAX)
    part.wrong(fmt::format("has the number {}, which no token has", number));
  token.number = Token(number);
  token.isControl = part.flag("special", false);
  token.isWord = part.flag("single_word", false);
  token.takesLeft = part.flag("lstrip", false), token.takesRight = part.flag("rstrip", false);
  token.isNormalised = part.flag("normalized", !token.isControl);
  return token;
}

bool isWordCharacter(uint32_t code) {
  if (code == '_' || code == 0x200c || code == 0x200d)
    return true;
  std::string_view category = unicode().category(code);
  return category[0] == 'L' || category[0] == 'M' || category == "Nd" || category == "Nl" ||
         category == "Pc";
}

/// The character that ends there.
uint32_t characterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin && (uint8_t(text[begin]) & 0xc0) == 0x80)
    --begin;
  return readCharacter(text.substr(begin)).code;
}

size_t spacesBefore(std::string_view text, size_t end, size_t least) {
  while (end > least && unicode().isSpace(characterBefore(text, end)))
    do
      --end;
    while (end > least && (uint8_t(text[end]) & 0xc0) == 0x80);
  return end;
}

size_t spacesBehind(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    ReadCharacter next = readCharacter(text.substr(begin));
    if (!unicode().isSpace(next.code))
      break;
    begin += next.bytes;
  }
  return begin;
}

} // namespace

AddedTokens::AddedTokens(const std::vector<JsonPart> &parts, const Normalizer &normalizer)
    : normalizer_(normalizer) {
  for (const JsonPart &part : parts) {
    AddedToken token = addedTokenOf(part);
    token.text = token.content;
    if (token.isNormalised && normalizer_)
      normalizer_(token.text);
    (token.isNormalised ? normalised_ : raw_).add(token.text, Token(all_.size()));
    all_.push_back(std::move(token));
  }
  raw_.sort(), normalised_.sort();
}

void AddedTokens::makeControl(Token number, const std::string &name) {
  bool isAdded = false;
  for (AddedToken &token : all_)
    if (token.number == number)
      isAdded = token.isControl = true;
  if (isAdded)
    return;
  raw_.add(name, Token(all_.size()));
  raw_.sort();
  all_.push_back({.content = name, .number = number, .isControl = true, .text = name});
}

bool AddedTokens::isApart(std::string_view text, size_t begin, size_t end) const {
  bool joinsLeft = begin && isWordCharacter(characterBefore(text, begin));
  bool joinsRight = end < text.size() && isWordCharacter(readCharacter(text.substr(end)).code);
  return !joinsLeft && !joinsRight;
}

/// The longest name at each place, from left to right.
void AddedTokens::split(const FoundPart &part, const PrefixTable &table, bool control,
                        std::vector<FoundPart> &to) const {
  const std::string &text = part.piece.text;
  size_t given = 0; // text before it is in `to`
  auto giveText = [&](size_t end) {
    if (end > given)
      to.push_back({{text.substr(given, end - given), part.piece.isFirst && !given}, -1});
  };
  for (size_t at = 0; at < text.size();) {
    size_t length = 0, which = 0;
    table.eachPrefix(std::string_view(text).substr(at),
                     [&](size_t bytes, Token place) { length = bytes, which = size_t(place); });
    if (!length) {
      ++at;
      continue;
    }
    const AddedToken &token = all_[which];
    size_t begin = at, end = at + length;
    at = end;
    bool isText =
        token.isControl && (!control || std::string_view(text).substr(end).starts_with(kPart));
    if (isText || (token.isWord && !isApart(text, begin, end)))
      continue;
    begin = token.takesLeft ? spacesBefore(text, begin, given) : std::max(begin, given);
    end = token.takesRight ? spacesBehind(text, end) : end;
    giveText(begin);
    to.push_back({{}, token.number});
    given = std::max(given, end);
  }
  giveText(text.size());
}

std::vector<FoundPart> AddedTokens::find(std::string_view text, bool control) const {
  std::vector<FoundPart> parts, result;
  split({{std::string(text), true}, -1}, raw_, control, parts);
  for (FoundPart &part : parts) {
    if (part.token >= 0) {
      result.push_back(part);
      continue;
    }
    if (normalizer_)
      normalizer_(part.piece.text);
    split(part, normalised_, control, result);
  }
  return result;
}

} // namespace tensmith::generation
