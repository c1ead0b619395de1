// What one run of a function gives and the next one takes: weights in training, and what is counted
// with them.
//
// An argument that is a state says so by its attributes, so that every rewrite carries it along
// without knowing of it: `graph.state`, the number of the result that takes its place in the next
// run, `graph.state_kind`, a number of plan::StateKind, and `graph.initial`, its first value, zeros
// where there is none. Argument and result have one type, of constant shape. One that has a kind
// and no such result is read, and left to others to update. One with `graph.state_on_success` is as
// it was after a run that fails; of the others some may have been updated.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace tensmith::graph {

inline constexpr char kState[] = "graph.state", kStateKind[] = "graph.state_kind",
                      kInitial[] = "graph.initial", kOnSuccess[] = "graph.state_on_success";
/// Of a constant that was read for training: the name of the initialiser that it is.
inline constexpr char kInitialiser[] = "graph.initialiser";
/// Of a result: the name of the initialiser that it is the next value of, as of running statistics.
inline constexpr char kNextOf[] = "graph.next_of";

/// Of a function: the derivatives of its first results come after them.
inline constexpr char kDifferentiated[] = "graph.differentiated";

/// The value that takes the argument's place; null where it is no state.
inline mlir::Value nextValue(mlir::func::FuncOp function, mlir::BlockArgument argument) {
  auto number = function.getArgAttrOfType<mlir::IntegerAttr>(argument.getArgNumber(), kState);
  mlir::Operation *exit = function.getBody().front().getTerminator();
  return number && number.getInt() >= 0 && number.getInt() < exit->getNumOperands()
             ? exit->getOperand(unsigned(number.getInt()))
             : mlir::Value();
}

} // namespace tensmith::graph
