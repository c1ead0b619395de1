// Vectors of sums that a tile finishes together.
//
// What follows products often stores numbers of fewer bits than sums have. Vectors of sums are then
// joined before, so that each instruction of what follows, and each store, is of a whole vector.
#pragma once

#include "compiler/kernel/Contraction.h"

namespace tensmith::kernel {

/// How many, of so many lanes each: where what the kernel stores has at most half the bits of a
/// sum two, and of short vectors as many as fill 128 bits; else 1. A power of two.
int64_t joinedVectors(graph::KernelOp kernel, const Contraction &contraction, int64_t lanes);

} // namespace tensmith::kernel
