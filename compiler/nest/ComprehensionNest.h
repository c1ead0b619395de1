// A statement of a comprehension as a nest, or all of a definition (docs/comprehensions.md,
// docs/nests.md).
//
//   C(i, j) +=! A(i, k) * B(k, j)
//   start[i, j]: C[i, j] = 0;  update[i, j, k]: C[i, j] += A[i, k] * B[k, j]
//
// A statement reads old values, of its own target too: where it reads that one elsewhere than it
// writes it, it writes into a tensor of its own, and what was there is "C_before".
// Ranges become domains. What a statement requires of sizes is a part of the domain of its points:
// it is checked before the kernel runs, where there is a point. Reads that ranges don't keep inside
// are gathers with reports. Sums of 16-bit floats are kept as f32 in a local tensor.
//
// What a nest can't say is Unsupported, with the reason: bounds that are not affine in other
// indices, or that a scalar input gives.
#pragma once

#include "compiler/graph/Comprehension.h"
#include "compiler/nest/SizedNest.h"

namespace tensmith::nest {

/// Of an operator whose operands are arguments of its block: tensors are the block's arguments, in
/// their order, and the result; what else statements make is local. It is one statement's, or that
/// of all statements of a definition (`isWhole`), which have the names of their targets then.
Result<SizedNest> nestOf(graph::ComprehensionOp op, bool isWhole = false);

} // namespace tensmith::nest
