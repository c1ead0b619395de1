// A statement of a comprehension as a nest (docs/comprehensions.md, docs/nests.md).
//
//   C(i, j) +=! A(i, k) * B(k, j)
//   start[i, j]: C[i, j] = 0;  add[i, k, j]: C[i, j] += A[i, k] * B[k, j]
//
// Ranges become domains. What a statement requires of sizes is a part of the domain of its points:
// it is checked before the kernel runs, where there is a point. Reads that ranges don't keep inside
// are gathers with reports. Sums of 16-bit floats are kept as f32 in a local tensor.
//
// What a nest can't say is Unsupported, with the reason: bounds that are not affine in other
// indices, or that a scalar input gives.
#pragma once

#include "compiler/graph/Comprehension.h"
#include "compiler/nest/Nest.h"

namespace tensmith::nest {

/// A nest of which parameters are functions of sizes.
struct SizedNest {
  Nest nest;
  std::vector<mlir::AffineExpr> parameters; // over `symbols`
  std::vector<mlir::StringAttr> symbols;
};

/// Of an operator of one statement, whose operands are arguments of its block: tensors are the
/// block's arguments, in their order, and the result.
Result<SizedNest> nestOf(graph::ComprehensionOp op);

/// The schedule that the text gives the operator's one statement: the comments behind it, up to the
/// next one, that begin with "# schedule:", a line of schedule text each. Empty: none.
std::string scheduleOf(graph::ComprehensionOp op);

} // namespace tensmith::nest
