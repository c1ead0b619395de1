// Conditions as operators of the graph, and those that an operator has.
#pragma once

#include "compiler/graph/Graph.h"

namespace tensmith::graph {

/// What must hold for the operator to be run as its types say: what its shape function requires,
/// and that the sizes that the types of its results name are those that it gives. Over the symbols
/// of `shapes`; without those that hold for all sizes. None of operators that have regions.
std::vector<Condition> conditionsOf(mlir::Operation *op, ShapeContext &shapes);

/// Whether the operator's result has no elements where the condition, a <= b, doesn't hold, since
/// one of its sizes is b - a + 1: a convolution that does a transposed one needs no window then.
bool isVoidElse(mlir::Operation *op, const Condition &condition, ShapeContext &shapes,
                const SizeFacts &facts);

/// Whether it is one of those that tests leave out (leftOutRequirement).
bool isLeftOut(const Condition &condition);

/// Whether its symbols are all among the first ones.
bool isOver(const Condition &condition, size_t symbols);

/// A `graph.check` of the condition, which is over the symbols of `shapes`.
CheckOp makeCheck(mlir::OpBuilder &builder, mlir::Location location, ShapeContext &shapes,
                  const Condition &condition);
/// The condition that it checks.
Condition conditionOf(CheckOp check, ShapeContext &shapes);

/// Gives sizes of the value of which nothing is known names, by which those of what is computed
/// from it can be said. Whether there were any.
bool nameSizes(mlir::Value value, ShapeContext &shapes);

} // namespace tensmith::graph
