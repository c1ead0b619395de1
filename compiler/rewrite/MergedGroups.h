// Groups of few channels as fewer and wider ones, for a matrix unit. A line of its tiles has 32
// bf16 of a row, of which a group of 8 channels would fill a quarter; and register tiles of small
// groups (kernel/DepthwiseTile.h) multiply an eighth as much in a cycle as the unit.
//
//   conv(x, w) of 40 groups of 8 channels  ->  conv(x, w') of 10 groups of 32
//
// where w' is zero between the inputs of one group and the outputs of another.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/kernel/Kernel.h"

#include "base/HostTensor.h"

namespace tensmith::rewrite {

/// How many neighbouring groups of a convolution of small groups the unit best takes as one, which
/// may be 1; 0 where there is no unit for bf16, or they are better left to register tiles.
int64_t groupsToMerge(graph::ConvOp conv, const kernel::MachineShape &machine);

/// Makes so many of the convolution's groups one. `weights` are its own, [outputs, inputs of a
/// group, window...] of f32.
void mergeGroups(graph::ConvOp conv, const HostTensor &weights, int64_t count);

} // namespace tensmith::rewrite
