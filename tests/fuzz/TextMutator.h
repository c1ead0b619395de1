// Changes to a text of either language, token by token: a number becomes another number, a word
// another one of the language or the text, a line goes, moves or comes from another text. What a
// lexer refuses is of little interest.
#pragma once

#include "tests/fuzz/Draw.h"

#include <string>
#include <vector>

namespace tensmith::fuzz {

using Pieces = std::vector<std::string>;

/// What a language's texts are made of, besides the words of the texts themselves.
struct Vocabulary {
  Pieces operators, types;
  std::string shortest; // a whole text
};

/// Either gives the size of what it has written, at most `maxSize`, as libFuzzer's hooks do.
size_t mutateText(uint8_t *data, size_t size, size_t maxSize, const Vocabulary &words, Draw &draw);
size_t crossTexts(const uint8_t *first, size_t firstSize, const uint8_t *second, size_t secondSize,
                  uint8_t *out, size_t maxSize, Draw &draw);

} // namespace tensmith::fuzz
