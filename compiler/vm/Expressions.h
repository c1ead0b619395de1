// The sizes of one function of a plan: symbols, and expressions over them, each stored once.
#pragma once

#include "runtime/plan_generated.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"

#include <map>

namespace tensmith::vm {

class Expressions {
public:
  explicit Expressions(plan::FunctionT &function) : function_(function) {}

  uint32_t constant(int64_t value) { return add(plan::ExprKind::Constant, value, 0); }
  uint32_t symbol(mlir::StringAttr name);
  uint32_t binary(plan::ExprKind kind, uint32_t a, uint32_t b);
  /// An affine expression over `names`.
  uint32_t affine(mlir::AffineExpr expression, llvm::ArrayRef<mlir::StringAttr> names);
  /// The same with an expression of the caller's for each name.
  uint32_t affine(mlir::AffineExpr expression, llvm::ArrayRef<mlir::StringAttr> names,
                  llvm::function_ref<uint32_t(mlir::StringAttr)> valueOf);
  /// The dimensions of a ranked tensor. A dimension of which nothing is known gets a symbol of its
  /// own.
  std::vector<uint32_t> dims(mlir::RankedTensorType type);

  /// Marks the symbols that are whole dimensions of the type as known from now on.
  void bind(mlir::RankedTensorType type);
  void bind(mlir::StringAttr name) { known_.insert(name); }
  /// Whether all symbols of the type are known by now.
  bool known(mlir::RankedTensorType type) const;
  bool known(mlir::StringAttr name) const { return known_.contains(name); }

  const llvm::DenseSet<mlir::StringAttr> &knownSymbols() const { return known_; }

  /// Makes the buffers the function's, which are placed when sizes are known: the offset of each,
  /// and the arena's bytes.
  std::vector<uint32_t> places(const std::vector<plan::ArenaBuffer> &buffers);

  /// The value where every symbol is graph::kOpenSize: what buffers are compared by when sizes are
  /// symbolic. Nothing where it overflows.
  int64_t estimate(uint32_t expression) const;
  bool isConstant(uint32_t expression) const {
    return function_.exprs[expression].kind() == plan::ExprKind::Constant;
  }
  int64_t constantValue(uint32_t expression) const { return function_.exprs[expression].a(); }

private:
  /// A symbol that no name of the graph's can refer to.
  uint32_t freshSymbol();
  uint32_t add(plan::ExprKind kind, int64_t a, int32_t b);

  plan::FunctionT &function_;
  std::map<std::tuple<int, int64_t, int32_t>, uint32_t> expressions_;
  llvm::DenseMap<mlir::StringAttr, uint32_t> symbols_;
  llvm::DenseSet<mlir::StringAttr> known_;
};

} // namespace tensmith::vm
