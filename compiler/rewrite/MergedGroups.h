// Groups of few channels as fewer and wider ones, for a matrix unit. A line of its tiles has 32
// bf16 or 64 bytes of a row, of which a group of 8 channels would fill a part; and register tiles
// of small groups (targets/cpu/templates/DepthwiseTile.h) multiply an eighth as much in a cycle as
// the unit.
//
//   conv(x, w) of 40 groups of 8 channels  ->  conv(x, w') of 10 groups of 32
//
// where w' is zero between the inputs of one group and the outputs of another. Which operands are
// bf16 is decided before (NarrowOperands.cpp).
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/rewrite/Rewrites.h"

namespace tensmith::rewrite {

/// How many neighbouring groups of a convolution the unit best takes as one, which may be 1; 0
/// where there is no unit for its operands (those of f32 are to be bf16), where it has one group or
/// groups that are wide, and where they are better left to register tiles or these are asked for.
int64_t groupsToMerge(graph::ConvOp conv, const Options &options);

} // namespace tensmith::rewrite
