// Symbolic shapes: dimensions as affine expressions over named symbols, and what a shape function
// may ask.
//
// A ShapeContext gives every symbol name one position (s0, s1, ...), so that dimensions taken from
// different types can be compared and combined. Types carry the same expressions over their own,
// smaller, sorted list of names
// (#graph.dims); `dims` and `tensorType` convert between the two. Products of symbols and division
// by symbols are allowed (semi-affine). A symbol is a size: an integer >= 0.
#pragma once

#include "compiler/graph/Conditions.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <functional>
#include <optional>

namespace tensmith::graph {

/// The elements of a small integer tensor, row-major, over the symbols of the ShapeContext that
/// gave them.
using Contents = llvm::SmallVector<mlir::AffineExpr>;

/// What the names of sizes begin with that nobody has named: messages show them as `?`.
inline constexpr llvm::StringLiteral kUnknownSize = "unknown.";

/// Contents are followed for tensors of at most so many elements.
inline constexpr int64_t kMaxKnownContents = 1024;

class ShapeContext {
public:
  explicit ShapeContext(mlir::MLIRContext *context) : context_(context) {}

  mlir::MLIRContext *mlirContext() const { return context_; }

  /// The symbol of that name, made on first use.
  mlir::AffineExpr symbol(mlir::StringAttr name);
  /// A symbol that no type has yet: a size that only the run will tell. `hint` is the stem of its
  /// name.
  mlir::AffineExpr freshSymbol(llvm::StringRef hint);
  mlir::AffineExpr constant(int64_t value) const {
    return mlir::getAffineConstantExpr(value, context_);
  }
  llvm::ArrayRef<mlir::StringAttr> symbols() const { return names_; }

  /// The dimensions of a ranked tensor; a `?` without an expression becomes a fresh symbol.
  llvm::SmallVector<mlir::AffineExpr> dims(mlir::Type rankedTensor);
  /// The type with those dimensions: constants static, the rest `?` with an encoding.
  mlir::RankedTensorType tensorType(mlir::Type element, llvm::ArrayRef<mlir::AffineExpr> dims);

  /// The type with what `of` makes of each of its dimensions; a type of no open size as it is.
  mlir::Type withSizes(mlir::Type type, llvm::function_ref<mlir::AffineExpr(mlir::AffineExpr)> of);

  /// Whether both are the same size for every value of the symbols.
  bool equal(mlir::AffineExpr a, mlir::AffineExpr b) const;
  /// The size that both have after NumPy's broadcasting; nothing where they can't agree. Where only
  /// the run can tell whether they do, that is a condition, and the size an expression that is
  /// right if it holds.
  std::optional<mlir::AffineExpr> broadcast(mlir::AffineExpr a, mlir::AffineExpr b);
  /// a simplified: constants folded, terms collected, s0 floordiv s0 = 1. A constant that overflows
  /// becomes the largest number, which as a size is refused later.
  mlir::AffineExpr simplify(mlir::AffineExpr expression) const;
  /// Whether no constant of a simplified expression may have come of an overflow.
  static bool isExact(mlir::AffineExpr expression);
  /// The product of dimensions.
  mlir::AffineExpr product(llvm::ArrayRef<mlir::AffineExpr> dims) const;

  /// What shape functions require and can't decide goes there from now on; null: nowhere.
  void listen(std::vector<Condition> *conditions) { conditions_ = conditions; }
  bool listens() const { return conditions_ != nullptr; }
  void require(Condition condition) {
    if (conditions_)
      conditions_->push_back(std::move(condition));
  }

  /// Elements of `value`, if it is a small integer tensor that is known (memoised; see the
  /// KnownContents interface).
  std::optional<Contents> contents(mlir::Value value);
  /// The same where all are constants.
  std::optional<llvm::SmallVector<int64_t>> constants(mlir::Value value);
  /// Contents are remembered by addresses. Of an operation that was made only now, and of those in
  /// it, nothing can be known: what is remembered is of others, erased since.
  void forget(mlir::Operation *made);
  /// Types of values have changed, and with them contents that are sizes.
  void forgetContents() { known_.clear(); }

  /// The sizes that broadcast to this one, which is the first of them that isn't 1; else the size
  /// itself.
  llvm::SmallVector<mlir::AffineExpr> broadcastParts(mlir::AffineExpr size) const;

private:
  mlir::AffineExpr broadcastOf(llvm::ArrayRef<mlir::AffineExpr> parts) const;
  std::string nameText(mlir::AffineExpr size) const;

  mlir::MLIRContext *context_;
  llvm::SmallVector<mlir::StringAttr> names_;
  llvm::DenseMap<mlir::StringAttr, unsigned> positions_;
  llvm::DenseSet<unsigned> nameless_; // positions of what `dims` made for a `?`
  llvm::DenseMap<mlir::Value, std::optional<Contents>> known_;
  unsigned fresh_ = 0;
  std::vector<Condition> *conditions_ = nullptr;
};

/// Has a context forget what it remembers by the addresses of operations that a builder copies, for
/// work that erases others. `GraphBuilder` does so for those that it creates.
class ForgettingListener : public mlir::OpBuilder::Listener {
public:
  explicit ForgettingListener(ShapeContext &shapes) : shapes_(shapes) {}

  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint previous) override {
    if (!previous.isSet()) // otherwise it was moved
      shapes_.forget(op);
  }

private:
  ShapeContext &shapes_;
};

/// Of a simplified expression.
inline std::optional<int64_t> constantOf(mlir::AffineExpr size) {
  auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(size);
  return constant ? std::optional(constant.getValue()) : std::nullopt;
}

/// The dimension of a type as an expression over the type's own symbols (names in `symbolNames`).
mlir::AffineExpr dimExpression(mlir::RankedTensorType type, unsigned dim);
llvm::ArrayRef<mlir::StringAttr> symbolNames(mlir::RankedTensorType type);

} // namespace tensmith::graph
