// What is known of control flow before it runs.
#pragma once

#include "compiler/graph/Graph.h"

namespace tensmith::graph {

/// The one element of a constant of integers or booleans; nothing for any other value.
std::optional<int64_t> constantInteger(mlir::Value value);

/// Whether the loop's body takes and yields as many values as the loop says, and each carried value
/// has one type all along.
bool keepsTypes(LoopOp loop);

/// Whether the loop goes on for as long as there are trips: nothing asks for its end.
bool neverStops(LoopOp loop);

} // namespace tensmith::graph
