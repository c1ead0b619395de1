// JSON Schemas as grammars: every text of the grammar is valid JSON by its schema. Not every valid
// text is one of the grammar: properties come in the schema's order, numbers have so many digits,
// and an object with `properties` has no others.
//
// Keywords that could not be kept to are refused by their names, and never left out; titles,
// descriptions and other words that restrict nothing are. Source: JSON Schema, draft 2020-12.
#pragma once

#include "generation/chat/BoundedJson.h"
#include "generation/grammar/Grammar.h"

namespace tensmith::generation {

/// Throws Failure, with the keyword.
Grammar schemaGrammar(const Json &schema);
/// Any object.
Grammar objectGrammar();

} // namespace tensmith::generation
