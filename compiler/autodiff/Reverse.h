// Reverse mode: cotangents of results to cotangents of what they were computed from.
//
// Operators are taken from the last to the first, and each hands what its results have got to its
// operands by its rule; what a value gets from several users is added up. What this builds stands
// behind the forward operators and uses their values, so that what is kept for the way back is
// there to be seen: as operands of later operators and, of a loop, as values that it scans out.
//
// Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapters 3 and 4.
#pragma once

#include "compiler/autodiff/Changes.h"
#include "compiler/autodiff/Differentiate.h"
#include "compiler/autodiff/Operators.h"

#include "llvm/ADT/MapVector.h"

namespace tensmith::autodiff {

class Procedures;

class Reverse {
public:
  /// Builds where the code's builder stands. Calls and branches of programs go by `procedures`;
  /// there are none where it is null.
  /// `keepsRows`: what a procedure's weights get from products is left as rows (Changes.h).
  /// `keepsLoops`: loops are gone back through whole, as what is in a loop that is recorded has to.
  Reverse(const graph::GradientCode &code, Activity &activity, Procedures *procedures = nullptr,
          bool keepsRows = false, bool keepsLoops = false)
      : code_(code), activity_(activity), procedures_(procedures), keepsRows_(keepsRows),
        keepsLoops_(keepsLoops) {}

  /// Adds to the cotangent of a value; nothing where the value is not active. That of a value of a
  /// data type is a change (Changes.h).
  mlir::LogicalResult add(mlir::Value value, mlir::Value cotangent);
  /// The same of a tensor whose cotangent is a change too, since it may be none.
  mlir::LogicalResult addChange(mlir::Value value, mlir::Value change);
  /// Goes through the operators from `last` back to `first`, both in one block.
  mlir::LogicalResult run(mlir::Operation *first, mlir::Operation *last);
  /// What a value has got, null for zero; the value is done with.
  mlir::Value take(mlir::Value value);
  mlir::Value takeOrZeros(mlir::Value value);
  /// The same as a change, whatever the value is.
  mlir::Value takeChange(mlir::Value value);
  /// Whether something that is no change has been given to a tensor, so that zeros were no loss.
  bool isDense(mlir::Value value) const {
    return cotangents_.lookup(value) || slices_.contains(value);
  }
  /// The values that have got something, in the order in which they first did.
  llvm::SmallVector<mlir::Value> reached() const {
    return llvm::to_vector(llvm::make_first_range(cotangents_));
  }

private:
  mlir::LogicalResult pull(mlir::Operation *op);
  /// What a part of a value along one dimension has got. Parts that lie side by side, as the gates
  /// of a cell, are joined, where a sum of each among zeros would read them all for every element.
  struct Slice {
    mlir::Value cotangent;
    int64_t dim, start, size;
  };
  bool addSlice(mlir::Operation *op, mlir::Value cotangent);
  mlir::Value joinSlices(mlir::Value value);
  /// What a value has got as one that a constructor built, by field.
  struct Parts {
    uint64_t tag;
    llvm::SmallVector<mlir::Value> fields; // tensors, or changes; null for zero
  };
  bool keepsRows(mlir::Operation *op);
  mlir::LogicalResult pullAsRows(mlir::Operation *op, mlir::Value cotangent);
  mlir::LogicalResult pullConstruct(program::ConstructOp construct, mlir::Value cotangent);
  mlir::LogicalResult pullField(program::FieldOp field, mlir::Value cotangent);
  mlir::Value joinParts(mlir::Value value);
  mlir::Value asChange(mlir::Value value, mlir::Type type);
  mlir::LogicalResult pullReference(mlir::Operation *op, mlir::Value cotangent);
  void pullRead(program::ReadOp read, mlir::Value cotangent);
  Changes &changes();
  mlir::LogicalResult pullTensorOperator(mlir::Operation *op, llvm::ArrayRef<mlir::Value> given);
  mlir::LogicalResult pullLoop(graph::LoopOp loop, llvm::ArrayRef<mlir::Value> given);
  mlir::LogicalResult pullBranch(graph::IfOp branch, llvm::ArrayRef<mlir::Value> given);

  const graph::GradientCode &code_;
  Activity &activity_;
  Procedures *procedures_;
  bool keepsRows_, keepsLoops_;
  llvm::MapVector<mlir::Value, mlir::Value> cotangents_; // null where there are others alone
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Slice>> slices_;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Parts>> parts_;
  llvm::DenseMap<mlir::Value, mlir::Value> changes_; // of tensors, beside their cotangents
};

/// The reverse of a loop: `given` are its results' cotangents, null where zero.
mlir::LogicalResult reverseLoop(const graph::GradientCode &code, Activity &activity,
                                graph::LoopOp loop, llvm::ArrayRef<mlir::Value> given,
                                Reverse &outer, Procedures *procedures, Checkpointing plan);

} // namespace tensmith::autodiff
