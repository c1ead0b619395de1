// What the ways of following complete trees (CompleteTreeCode.h, LookupTreeCode.h) have in common:
// tables in the kernel's image, and features as keys.
#pragma once

#include "compiler/targets/cpu/templates/CompleteTrees.h"
#include "compiler/targets/cpu/templates/TreeCode.h"

namespace tensmith::kernel {

class CompleteTreeFrame : protected TreeCode {
protected:
  CompleteTreeFrame(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
                    const CompleteTrees &trees, mlir::ValueRange results)
      : TreeCode(emitter, kernel, root, results), forest_(trees), integer_(builder_.getI32Type()) {}

  /// Of a constant that lies in the kernel's image, which has the name in the whole kernel.
  mlir::Value table(llvm::StringRef name, llvm::ArrayRef<uint32_t> numbers);
  /// Those of all ways.
  void placeTables();

  mlir::Value bytesFrom(mlir::Value base, int64_t bytes) {
    return bytePointer(math_, base, math_.constant(bytes));
  }

  template <typename Op> mlir::Value made(mlir::Value a, mlir::Value b) {
    return builder_.create<Op>(math_.location, a, b);
  }
  /// In each lane of a vector.
  mlir::Value constant(mlir::Type type, int64_t value);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::CmpIOp>(math_.location, predicate, a, b);
  }
  mlir::Value choose(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::SelectOp>(math_.location, condition, a, b);
  }

  struct Key {
    mlir::Value number, isMissing;
  };
  /// As keyOf, once -0 is 0.
  Key keyAt(mlir::Value row, mlir::Value column);

  const CompleteTrees &forest_;
  mlir::Type integer_;
  mlir::Value leaves_, targetTable_; // in the image
};

} // namespace tensmith::kernel
