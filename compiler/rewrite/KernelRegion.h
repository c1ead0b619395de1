// Makes a graph.kernel of operators: copies of them in a region, whose arguments are what they read
// from outside.
#pragma once

#include "compiler/kernel/Template.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace tensmith::rewrite {

/// The right operand of a root whose template lays it out, where the builder is, as the point asks
/// for it. What is constant is evaluated.
kernel::LaidOut laidOutRight(mlir::Operation *root, mlir::OpBuilder &builder,
                             mlir::Location location, const Options &options,
                             const kernel::Point &asked);

/// The operators that make a matrix of vectors and numbers, as a causal mask is made of the numbers
/// of queries and keys; empty where it is made of anything else. A kernel then makes its elements
/// where it uses them.
llvm::SetVector<mlir::Operation *> madeOfVectors(mlir::Value matrix,
                                                 const kernel::Machine &machine);

class KernelRegion {
public:
  explicit KernelRegion(mlir::MLIRContext *context);

  /// Before operands are laid out for a kernel of these operators, built around `main`: takes its
  /// key. Returns what is asked for the kernel.
  kernel::Point begin(llvm::ArrayRef<mlir::Operation *> sorted, mlir::ValueRange results,
                      mlir::Operation *main, const Options &options);
  /// The right operand of an operator that is added next.
  void addRight(mlir::Operation *root, const kernel::LaidOut &right);
  /// A copy of the operator, behind those before it. Single numbers that it reads are copied, too;
  /// an element-wise operator that is equal to one inside is that one.
  void add(mlir::Operation *op);

  /// The kernel, where the builder is, with these results of operators that were added: `sorted`,
  /// which is built around `main`. It is matched with its template.
  graph::KernelOp finish(mlir::OpBuilder &builder, mlir::ValueRange results, mlir::Operation *main,
                         llvm::ArrayRef<mlir::Operation *> sorted, const kernel::Machine &machine);

  /// Whether a schedule asks for a nest, and it can be one: no operand is laid out then. Where it
  /// can't be, the kernel is its template's, as if nothing were asked.
  bool isNest() const { return isNest_; }

private:
  static bool isTakenAsNest(llvm::ArrayRef<mlir::Operation *> sorted, mlir::ValueRange results,
                            mlir::Operation *main, const kernel::Machine &machine);
  mlir::Value addInput(mlir::Value value);

  mlir::Region body_;
  mlir::OpBuilder inside_;
  mlir::IRMapping map_;
  bool isNest_ = false;
  kernel::Key key_; // taken before operands are laid out
  llvm::SmallVector<mlir::Value> inputs_;
};

/// A kernel in the place of the last of these operators, `sorted` as they stand, which is built
/// around `main`: all of them are in it, and gone outside; it gives their results `results`.
graph::KernelOp replaceByKernel(llvm::ArrayRef<mlir::Operation *> sorted,
                                llvm::ArrayRef<mlir::Value> results, mlir::Operation *main,
                                const Options &options);

} // namespace tensmith::rewrite
