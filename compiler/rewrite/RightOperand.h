// The right operand of a contraction or of a depthwise convolution, as its kernel takes it: laid
// out in panels before the kernel, where the template finds it, and taken back to its own form
// inside, so that the region says what the kernel computes.
#pragma once

#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

namespace tensmith::rewrite {

class RightOperand {
public:
  /// Lays it out where the builder is, as a point of the kernel asks for it; what is constant is
  /// evaluated.
  RightOperand(mlir::Operation *root, mlir::OpBuilder &builder, mlir::Location location,
               const Options &options, const kernel::Point &asked);

  /// What the kernel takes.
  mlir::Value laidOut() const { return laidOut_; }
  /// Inside: the operand in its own form, from the block argument.
  mlir::Value restored(mlir::OpBuilder &inside, mlir::Value argument) const;
  mlir::Operation *root() const { return root_; }

private:
  mlir::Value packed(graph::GraphBuilder &graph, mlir::Value matrix, int64_t width) const;

  mlir::Operation *root_;
  bool smallGroups_ = false;
  int64_t step_ = 1;     // products that are added up at once
  int64_t multiple_ = 1; // to which rows are filled up
  mlir::Value laidOut_;
};

} // namespace tensmith::rewrite
