// The integers of a range as a rule over their decimal digits.
#pragma once

#include "generation/grammar/Grammar.h"

namespace tensmith::generation {

/// The largest that is written: of 15 digits, which a double holds.
inline constexpr int64_t kMostInteger = 999'999'999'999'999;

/// Integers from `least` to `most`, which are within -kMostInteger to kMostInteger, as JSON writes
/// them.
int integerRule(Grammar &grammar, int64_t least, int64_t most);

} // namespace tensmith::generation
