// Changes to a text of either language, token by token: a number becomes another number, a word
// another one of the language or the text, a line goes, moves or comes from another text. What a
// lexer refuses is of little interest.
#pragma once

#include <string>
#include <vector>

namespace tensmith::fuzz {

using Pieces = std::vector<std::string>;

/// What a language's texts are made of, besides the words of the texts themselves.
struct Vocabulary {
  Pieces operators, types;
  std::string shortest; // a whole text
};

/// That of the fuzzer which is linked with this, and which libFuzzer's hooks here draw from.
const Vocabulary &vocabulary();

} // namespace tensmith::fuzz
