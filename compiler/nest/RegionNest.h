// A kernel's region as a nest: statements that say the elements of its results.
//
//   r = relu(reduce_sum(x * y, axes = [1]))
//   start[i]:  sum[i] = 0;  add[i, k]: sum[i] += x[i, k] * y[i, k];  r[i]: r[i] = relu(sum[i])
//
// What an operator's element is, it says itself (Indexed::emitElement), into a block that nothing
// runs: its reads and reductions are noted (ElementContext), and its arithmetic on indices is
// followed back to iterators and sizes. Reads at indices that are affine in these are accesses, at
// others gathers; a guarded read is one with constraints. A reduction has a statement that begins
// it and one that joins; what is element-wise or moves elements is computed where it is read.
//
// Indices that are data are checked as the code checks them (Operation::Check), where the element
// is read. What can't be said is Unsupported, with the operator and the reason: loops that are no
// reductions.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/nest/SizedNest.h"

namespace tensmith::nest {

/// An element-wise operator's own code.
struct ElementFunction : ScalarFunction {
  graph::Elementwise op;

  explicit ElementFunction(graph::Elementwise op)
      : ScalarFunction(op->getName().stripDialect().str()), op(op) {}
};

/// The tensors are the block's arguments, in their order, and the results. Operators that have no
/// element of their own are taken apart, in a copy. The kernel must outlive the nest.
Result<SizedNest> nestOf(graph::KernelOp kernel);

} // namespace tensmith::nest
