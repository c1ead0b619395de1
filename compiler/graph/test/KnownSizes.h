// What conditions and expressions over sizes are where sizes are known: an oracle of proofs, and
// what tells tests which sizes break a requirement.
#pragma once

#include "compiler/graph/Conditions.h"

#include "llvm/ADT/ArrayRef.h"

namespace tensmith::graph {

/// The value at these values of its symbols, an entry for each (the expression has no dimensions);
/// nothing where one of them is not known, or it overflows or divides by what isn't positive.
std::optional<int64_t> valueAt(mlir::AffineExpr expression,
                               llvm::ArrayRef<std::optional<int64_t>> symbols);
/// Whether it holds there; nothing where one of its sizes has no value.
std::optional<bool> holdsAt(const Condition &condition,
                            llvm::ArrayRef<std::optional<int64_t>> symbols);

} // namespace tensmith::graph
