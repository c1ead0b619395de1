// How a tokenizer.json puts tokens together to text.
//
// Two views of one definition: a list of tokens as a whole, and a single token in the middle of a
// text, as bytes that may end within a character, for texts that come token by token.
#pragma once

#include "generation/tokenizer/JsonPart.h"

#include <functional>
#include <string>
#include <vector>

namespace tensmith::generation {

/// What tokens are on their way to text. Of a `whole` text the first is at its beginning and the
/// last at its end, and what is no UTF-8 is replaced; otherwise they stand in its middle.
struct DecodedTokens {
  std::vector<std::string> parts;
  bool isWhole = true;
};

using TokenDecoder = std::function<void(DecodedTokens &tokens)>;

/// Throws Failure where it is none that is known, by its name.
TokenDecoder tokenDecoderOf(const JsonPart &part);

} // namespace tensmith::generation
