// A loop that is filled before it is known what it carries, as the way back of another is.
//
// While it is open its region has a place, so that what is built in it sees what is around it. When
// it is closed, the loop is made where the code's builder then stands: behind all that it begins
// with.
#pragma once

#include "compiler/autodiff/Activity.h"

namespace tensmith::autodiff {

class LoopBuilder {
public:
  LoopBuilder(const graph::GradientCode &code, Activity &activity, mlir::Location location);

  mlir::Block &block() { return *block_; }
  mlir::Region &region() { return scaffold_.getBody(); }
  mlir::Value iteration() { return block_->getArgument(0); }
  mlir::Value condition() { return block_->getArgument(1); }
  /// The block's argument for one more carried value; of the initial value's type where there is
  /// none. A null value is the error of `close`.
  mlir::Value carry(mlir::Value initial, mlir::Type type = {});
  /// The block yields its condition, what it carries, and what is scanned out. A trip count or
  /// condition that is null is absent.
  mlir::FailureOr<graph::LoopOp> close(mlir::Value trips, mlir::Value condition,
                                       llvm::ArrayRef<mlir::Value> yielded);

private:
  const graph::GradientCode &code_;
  Activity &activity_;
  mlir::Location location_;
  graph::LoopOp scaffold_;
  mlir::Block *block_;
  llvm::SmallVector<mlir::Value> initial_;
};

} // namespace tensmith::autodiff
