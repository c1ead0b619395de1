// What a tokenizer.json does to a text before it is cut: normal forms, replacements, what BERT and
// SentencePiece do.
#pragma once

#include "generation/tokenizer/JsonPart.h"

#include <functional>
#include <string>

namespace tensmith::generation {

/// Valid UTF-8 to valid UTF-8.
using Normalizer = std::function<void(std::string &text)>;

/// Throws Failure where it is none that is known, by its name.
Normalizer normalizerOf(const JsonPart &part);

/// SentencePiece's table of replacements: a double array of byte strings (Aoe, 1989, as darts-clone
/// packs it) behind its size, then the texts that its values are places of. Throws Failure.
Normalizer charsmapNormalizer(std::string table, const JsonPart &of);

} // namespace tensmith::generation
