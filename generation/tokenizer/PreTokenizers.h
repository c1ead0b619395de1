// How a tokenizer.json cuts a text into the pieces that its model is given one by one.
#pragma once

#include "generation/tokenizer/Splitting.h"

namespace tensmith::generation {

using PreTokenizer = std::function<void(std::vector<TextPiece> &pieces)>;

/// Throws Failure where it is none that is known, by its name.
PreTokenizer preTokenizerOf(const JsonPart &part);

/// Where a space is put before a text.
enum class Prepending { Never, First, Always };
/// Of a part that names it "prepend_scheme", or by the older "add_prefix_space".
Prepending prependingOf(const JsonPart &part);

} // namespace tensmith::generation
