// The ranges of a statement's indices, and what must hold for its reads to be inside.
#pragma once

#include "reference/comprehension/Analysis.h"

namespace tensmith::comprehension {

/// Infers the ranges that no `where` gives, in rounds: in each, accesses with one index that has no
/// range yet give it the largest range at which they are inside whatever the other indices are.
/// `exists` are expressions whose accesses count as the value's do. Then decides of each access
/// whether it is always inside, inside if the sizes keep to a requirement, or to be checked where
/// it is read. Returns false where a message was left.
bool inferRanges(Function &function, Statement &statement, std::span<const ExprRef> exists,
                 std::vector<Message> &messages);

} // namespace tensmith::comprehension
