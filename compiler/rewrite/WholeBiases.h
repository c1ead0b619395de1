// Biases that are whole numbers of a sum's scale become part of what is taken off the sum.
#pragma once

#include "compiler/graph/Graph.h"

namespace tensmith::rewrite {

/// float(sums - k) * a + b  ->  float(sums - (k - b / a)) * a, where that is rounded.
///
/// Quantised models store a layer's bias in 32 bits, by the scale of its sums. It can then be added
/// to these, where it takes no operation: they begin with it.
void mergeWholeBias(graph::RoundOp round);

} // namespace tensmith::rewrite
