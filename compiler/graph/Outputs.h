// Outputs that a model doesn't have by itself: tensors on the way, kept to be looked at.
//
// A kept tensor becomes one more result of `main`, after the model's own, so that nothing that
// follows needs to know of it: it is computed, handed out and named like any output. What
// is kept can't be fused away, so a module with kept
// tensors is compiled differently from one without.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace tensmith::graph {

struct NamedValue {
  std::string name;
  mlir::Value value;
};

/// What to keep: every tensor that operators compute, or those of the names.
struct Keep {
  bool all = false;
  std::vector<std::string> names;

  bool any() const { return all || !names.empty(); }
};

/// Whether the value is one that `all` means: an operator computes it, it is a tensor or a sequence
/// of them, and the function doesn't give it anyway.
bool isIntermediate(mlir::Value value, mlir::func::FuncOp function);

/// The intermediate values of a function whose operators have no names, called after their place in
/// the text ("12:8", with "#1" for a second result).
std::vector<NamedValue> intermediatesByPlace(mlir::func::FuncOp function);

/// Adds the values as results, in the order of the program.
void addOutputs(mlir::func::FuncOp function, std::vector<NamedValue> values);

/// A module whose `main` computes the values by copies of these operators, given in their order;
/// its arguments are the inputs.
mlir::OwningOpRef<mlir::ModuleOp> moduleOf(llvm::ArrayRef<mlir::Operation *> operators,
                                           mlir::ValueRange inputs, mlir::ValueRange results);

/// "node 'conv1 (Conv)', number 12 of model.onnx": where a value is computed.
std::string sourceOf(mlir::Value value);

} // namespace tensmith::graph
