// Grammars as text: rules `name ::= alternatives` of "texts", [classes] of characters, names,
// parentheses, `|`, and `*`, `+`, `?`, `{m,n}` behind what they repeat; `#` begins a comment. The
// rule `root` is the whole text. It is the form that llama.cpp calls GBNF.
#pragma once

#include "generation/grammar/Grammar.h"

namespace tensmith::generation {

/// Throws Failure, with the line.
Grammar parseGbnf(std::string_view text);

} // namespace tensmith::generation
