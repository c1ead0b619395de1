// Regular expressions as rules: what a JSON string may have in it, by a schema's `pattern` or
// `format`.
//
// Read is what ECMA-262's expressions have that is regular: classes, groups, alternatives,
// repetitions, `^` and `$` at the ends of the whole. What looks around, or back, is refused by its
// name. Strings are written in JSON's shortest form: a quotation mark, a backslash and control
// characters by escapes, everything else as it is. An expression that doesn't say `^` (`$`) has any
// characters before (behind) it, as the schema's specification asks for.
#pragma once

#include "generation/grammar/Grammar.h"

#include <string_view>

namespace tensmith::generation {

/// The rule of what stands between the quotation marks. `pattern`: UTF-8. Throws Failure.
int patternRule(Grammar &grammar, std::string_view pattern);
/// The pattern of a `format` that JSON Schema defines; empty where it is not known here.
std::string_view patternOfFormat(std::string_view format);

} // namespace tensmith::generation
