// Between the IR's constants, types and attributes and their forms without MLIR (HostTensor,
// DataType, Attributes).
#pragma once

#include "base/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

#include <optional>
#include <vector>

namespace tensmith::graph {

/// The element type of a tensor type; Undefined where there is no such DataType.
DataType dataType(mlir::Type element);
mlir::Type elementType(mlir::MLIRContext *context, DataType type);

/// The tensor that a constant's attribute holds, borrowed where its bytes are in our storage form.
/// The attribute's context must outlive it.
Result<HostTensor> hostTensor(mlir::ElementsAttr value);

/// That of a value that is a constant, and holds no type that we don't know; nothing of others.
std::optional<HostTensor> constantTensor(mlir::Value value);

/// The attribute of a tensor: dense, and printed, up to a few dozen elements; beyond that a
/// resource that shares the tensor's bytes (kept alive with the context), which text forms elide or
/// put at the end.
mlir::ElementsAttr elementsAttr(mlir::MLIRContext *context, const HostTensor &tensor);

/// The same of what folding has computed, where equal elements are one: so rules that ask for zeros
/// see them, and equal constants are found to be, however large.
mlir::ElementsAttr foldedAttr(mlir::MLIRContext *context, const HostTensor &tensor);

/// Gives back the memory of constants that a module no longer has: a context keeps each resource
/// that was ever made, so that weights which are folded, laid out and packed would be there four
/// times over. It knows those that this thread makes while it lives; of several, the innermost.
class ConstantScope {
public:
  ConstantScope();
  ~ConstantScope();
  ConstantScope(const ConstantScope &) = delete;
  ConstantScope &operator=(const ConstantScope &) = delete;

  /// Attributes of constants that are not in the module must not be used any more.
  void release(mlir::ModuleOp module);

  void made(mlir::DenseResourceElementsAttr constant, const HostTensor &tensor);

private:
  ConstantScope *outer_;
  std::vector<mlir::DenseResourceElementsAttr> made_;
  size_t looked_ = 0; // how many there were when the module was looked at
};

/// An operator's attributes for the reference evaluator (defaults filled in; booleans as 0 and 1,
/// types as numbers).
Attributes attributes(mlir::Operation *op);

} // namespace tensmith::graph
