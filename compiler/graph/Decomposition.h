// What it takes to put a decomposition in its operator's place (Decomposable, GraphInterfaces.td).
#pragma once

#include "compiler/graph/GraphBuilder.h"

#include "llvm/ADT/SetVector.h"

namespace tensmith::graph {

/// Erases what is unused between `before` (null: the block's begin) and the operator: what an
/// impossible decomposition left behind.
void eraseBetween(mlir::Operation *before, mlir::Operation *op);

/// The names of all open sizes of some blocks. Whoever makes up a name for a size has to know them:
/// two sizes of one name are taken to be equal.
class SizeNames {
public:
  /// Those of the block and of what is inside it.
  void add(mlir::Block &block);
  void add(mlir::Operation &op);

  void giveTo(ShapeContext &shapes) const;

private:
  void take(mlir::TypeRange types);

  llvm::SetVector<mlir::StringAttr> names_;
};

/// The operator's decomposition, where its operands are still what it takes: more may be known of
/// them than when it was made.
mlir::LogicalResult decomposed(mlir::Operation *op, GraphBuilder &builder,
                               llvm::SmallVectorImpl<mlir::Value> &results);

/// Puts what `replacement` makes, before the operator, in its place: of its types, as precise as it
/// was, and with sizes named as none in `names` is, to which the new ones are added. False where
/// there is none; nothing is changed then.
bool replaceOperator(
    mlir::Operation *op, SizeNames &names,
    llvm::function_ref<mlir::LogicalResult(mlir::Operation *op, GraphBuilder &builder,
                                           llvm::SmallVectorImpl<mlir::Value> &results)>
        replacement);

/// Counts what each operator has become, its parts' parts included: one that has itself among its
/// parts would go on for ever.
class PartCounts {
public:
  using Replacement = llvm::function_ref<mlir::LogicalResult(
      mlir::Operation *op, GraphBuilder &builder, llvm::SmallVectorImpl<mlir::Value> &results)>;
  /// `replaceOperator`, and whether there was a replacement. Fails, with an error, where what the
  /// operator once was a part of has become too much.
  mlir::FailureOr<bool> replace(mlir::Operation *op, SizeNames &names, Replacement replacement);

private:
  llvm::DenseMap<mlir::Operation *, size_t> originals_; // of operators that are parts
  std::vector<int64_t> counts_;                         // of replacements, for each original
};

/// Takes the block's operators for which `isWhole` holds apart, and what they are made of likewise,
/// until there is none. Fails where one has no decomposition.
mlir::LogicalResult takeApart(mlir::Block &block,
                              llvm::function_ref<bool(mlir::Operation *)> isWhole);

} // namespace tensmith::graph
