// What the shape functions are written with: operands' dimensions, errors that name a constraint,
// common rules.
#pragma once

#include "compiler/graph/Graph.h"

#include "mlir/IR/TypeUtilities.h"

namespace tensmith::graph {

using Dims = llvm::SmallVector<mlir::AffineExpr>;

constexpr int64_t kMostDimensions = 64; // of a tensor, as the runtime has it

/// One run of a shape function. Errors are emitted on the operator; a rule that fails returns
/// failure at once.
class Inference {
public:
  Inference(ShapeContext &shapes, mlir::Operation *op, llvm::SmallVectorImpl<mlir::Type> &results)
      : shapes(shapes), op(op), results(results) {}

  mlir::InFlightDiagnostic error() { return op->emitOpError(); }

  bool present(unsigned operand) const {
    return operand < op->getNumOperands() &&
           !llvm::isa<mlir::NoneType>(op->getOperand(operand).getType());
  }
  /// Whether an operand that is present has no rank: then the results have none either.
  bool unranked() const;
  /// Results of the given element types without a rank.
  mlir::LogicalResult giveUnranked(llvm::ArrayRef<mlir::Type> elements);

  mlir::Type element(unsigned operand) const {
    return mlir::getElementTypeOrSelf(op->getOperand(operand).getType());
  }
  int64_t rank(unsigned operand) const {
    return llvm::cast<mlir::RankedTensorType>(op->getOperand(operand).getType()).getRank();
  }
  Dims dims(unsigned operand) { return shapes.dims(op->getOperand(operand).getType()); }
  mlir::AffineExpr fresh(llvm::StringRef hint = {});
  /// A size of the result that other conditions keep from being negative.
  mlir::AffineExpr size(mlir::AffineExpr size) {
    facts_.assumeSize(shapes.simplify(size));
    return size;
  }
  mlir::AffineExpr constant(int64_t value) { return shapes.constant(value); }
  std::optional<int64_t> known(mlir::AffineExpr size) const;
  std::optional<llvm::SmallVector<int64_t>> constants(unsigned operand) {
    return present(operand) ? shapes.constants(op->getOperand(operand)) : std::nullopt;
  }
  std::optional<Contents> contents(unsigned operand) {
    return present(operand) ? shapes.contents(op->getOperand(operand)) : std::nullopt;
  }

  /// That a result may have so many dimensions. `give` looks itself; this is for whoever would make
  /// them first.
  mlir::LogicalResult checkRank(int64_t rank);
  /// Adds a result. Fails where it would have more elements or dimensions than a tensor may (2^48).
  mlir::LogicalResult give(mlir::Type element, llvm::ArrayRef<mlir::AffineExpr> dims);
  /// Adds a result of the operand's type and shape.
  mlir::LogicalResult giveSame(unsigned operand) { return give(element(operand), dims(operand)); }

  /// A dimension number in [-rank, rank) made non-negative; fails outside, naming the constraint.
  mlir::FailureOr<int64_t> axis(int64_t axis, int64_t rank, llvm::StringRef name = "axis");
  mlir::LogicalResult requireRank(unsigned operand, int64_t least, int64_t most,
                                  llvm::StringRef name);
  /// Of the operands from `first` on, one after the other: each that is there and whose rank is
  /// known has this one.
  mlir::LogicalResult requireRanks(unsigned first, llvm::ArrayRef<int64_t> ranks);
  mlir::LogicalResult requireSameElement(unsigned a, unsigned b, llvm::StringRef constraint);
  mlir::LogicalResult requireInteger(unsigned operand, llvm::StringRef name);
  // What must hold between sizes. Each fails where it is known not to, and is a condition of the
  // ShapeContext where only the run can tell.

  /// Sizes that must be equal.
  mlir::LogicalResult requireEqual(mlir::AffineExpr a, mlir::AffineExpr b,
                                   llvm::StringRef constraint, llvm::StringRef what);
  /// One number for each output channel, where there is a bias.
  mlir::LogicalResult requireBias(unsigned operand, mlir::AffineExpr channels,
                                  llvm::StringRef constraint);
  /// a <= b; `message` says what else, with {a} and {b} for their values.
  mlir::LogicalResult requireAtMost(mlir::AffineExpr a, mlir::AffineExpr b,
                                    const llvm::Twine &message);
  /// `size` is 1, or what is wanted.
  mlir::LogicalResult requireOneOr(mlir::AffineExpr size, mlir::AffineExpr wanted,
                                   llvm::StringRef constraint, llvm::StringRef what);
  /// `size` is a multiple of the positive number.
  mlir::LogicalResult requireMultiple(mlir::AffineExpr size, int64_t of, llvm::StringRef constraint,
                                      llvm::StringRef what);
  mlir::LogicalResult require(Condition condition);

  /// NumPy's broadcasting of two shapes.
  mlir::FailureOr<Dims> broadcast(llvm::ArrayRef<mlir::AffineExpr> a,
                                  llvm::ArrayRef<mlir::AffineExpr> b);

  /// The same of one dimension; nothing where they can't agree.
  std::optional<mlir::AffineExpr> broadcast(mlir::AffineExpr a, mlir::AffineExpr b);

  ShapeContext &shapes;
  mlir::Operation *op;
  llvm::SmallVectorImpl<mlir::Type> &results;

private:
  /// Records that the size isn't negative, unless that is certain.
  void requireSize(mlir::AffineExpr size);

  SizeFacts facts_; // of sizes that the operands have, or that operands have together
};

/// Row-major strides of a static shape, in elements.
llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape);

} // namespace tensmith::graph
