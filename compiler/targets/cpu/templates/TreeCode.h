// What the ways of following trees have in common: their tables' memory, the sums of leaves, and
// what becomes of these as the kernel's results.
#pragma once

#include "compiler/kernel/KernelFrame.h"
#include "reference/Trees.h"

namespace tensmith::kernel {

/// The constants of a forest; nothing where one of them is no constant.
std::optional<reference::PackedForest> packedForest(graph::TreeEnsembleOp op);

class TreeCode {
protected:
  using Values = llvm::SmallVector<mlir::Value>;

  TreeCode(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
           mlir::ValueRange results);

  void forEach(mlir::Value begin, mlir::Value end, llvm::function_ref<void(mlir::Value)> body) {
    emitFor(math_, begin, end, math_.constant(1), body);
  }
  void forEach(int64_t count, llvm::function_ref<void(mlir::Value)> body) {
    forEach(math_.constant(0), math_.constant(count), body);
  }
  mlir::Value at(mlir::Value base, mlir::Value offset) {
    return elementPointer(math_, element_, base, offset);
  }
  mlir::Value load(mlir::Type type, mlir::Value base, mlir::Value offset);
  mlir::Value loadElement(mlir::Value base, mlir::Value offset) {
    return load(element_, base, offset);
  }
  void store(mlir::Value value, mlir::Value base, mlir::Value offset);
  mlir::Value number(double value);
  mlir::Value toIndex(mlir::Value integer);
  /// Of tables of i32.
  mlir::Value entry(mlir::Value table, mlir::Value offset) {
    return toIndex(load(builder_.getI32Type(), table, offset));
  }

  /// Nothing is computed where x has not all features that are tested.
  void checkColumns(mlir::Value begin, mlir::Value &end);

  /// Of no leaf.
  mlir::Value nothing();
  mlir::Value combined(mlir::Value sum, mlir::Value weight);
  /// Sums, [rows, targets], are where this points to.
  void combineAt(mlir::Value sums, mlir::Value offset, mlir::Value weight) {
    store(combined(loadElement(sums, offset), weight), sums, offset);
  }
  void clearSums(mlir::Value sums, mlir::Value row);
  /// The sums of row `from`, and what follows of them, as row `to` of the results.
  void giveRow(mlir::Value sums, mlir::Value to, mlir::Value from);

  ElementEmitter &emitter_;
  IndexMath &math_;
  mlir::OpBuilder &builder_;
  graph::KernelOp kernel_;
  graph::TreeEnsembleOp root_;
  mlir::ValueRange results_;
  mlir::Value x_, columns_; // in memory
  mlir::Type element_;
  int64_t targets_, columnCount_;
  mlir::Value rows_, features_;
};

} // namespace tensmith::kernel
