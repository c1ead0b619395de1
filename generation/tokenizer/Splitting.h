// Texts in pieces, and patterns that cut them: what all steps of a tokenizer.json share.
#pragma once

#include "generation/tokenizer/JsonPart.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith::generation {

/// A part of a text that is given to the model. `isFirst`: nothing of the text is before it.
struct TextPiece {
  std::string text;
  bool isFirst = false;
};

/// A part of a text, in bytes, and whether the pattern found it.
struct Span {
  size_t begin = 0, end = 0;
  bool isMatch = false;
};

/// The parts of a text, in order: together they are all of it.
using Finder = std::function<std::vector<Span>(std::string_view text)>;

/// By {"String": ...} or {"Regex": ...}, or a text, which is one to be found.
Finder finderOf(const JsonPart &pattern);
/// By a regular expression; `of` is named where it is none.
Finder finderOfExpression(const std::string &expression, const JsonPart &of);
/// Each character that is one of those.
Finder finderOfCharacters(std::function<bool(uint32_t code)> isOne);

/// What becomes of the parts that were found.
enum class Behaviour { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
Behaviour behaviourOf(const JsonPart &text);

/// Each piece in the parts that its text is cut into; empty ones are none.
void cut(std::vector<TextPiece> &pieces, const Finder &find, Behaviour behaviour,
         bool isInverted = false);

std::string replacedAll(const Finder &find, std::string_view text, std::string_view by);

/// The letters that stand for bytes (GPT-2): printable ones for themselves, the others U+0100 on.
const std::string &letterOf(uint8_t byte);
/// -1: the character stands for none.
int byteOfLetter(uint32_t code);

} // namespace tensmith::generation
