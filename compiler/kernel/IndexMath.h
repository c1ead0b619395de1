// Arithmetic on sizes and indices, folded as it is built, and symbolic dimensions as values.
#pragma once

#include "compiler/graph/Shape.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace tensmith::kernel {

/// Builds `index` arithmetic at the builder's insertion point. Quantities are non-negative, so
/// division is unsigned.
class IndexMath {
public:
  IndexMath(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b) { return add(a, constant(b)); }
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b) { return mul(a, constant(b)); }
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value rem(mlir::Value a, mlir::Value b);
  mlir::Value ceilDiv(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b); // unsigned, i1
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value toI64(mlir::Value index);
  mlir::Value product(mlir::ValueRange values);

  /// Row-major offset of `indices` in a tensor of `sizes`.
  mlir::Value linear(mlir::ValueRange indices, mlir::ValueRange sizes);
  /// The inverse: the indices of the element at `offset`. The first size is not needed.
  llvm::SmallVector<mlir::Value> delinear(mlir::Value offset, mlir::ValueRange sizes);

  mlir::OpBuilder &builder;
  mlir::Location location;
};

std::optional<int64_t> constantIndex(mlir::Value value);

/// The values of the size symbols in scope.
using SizeValues = llvm::DenseMap<mlir::StringAttr, mlir::Value>;

/// Of an expression over the symbols that `names` stand for.
mlir::Value sizeValue(IndexMath &math, const SizeValues &sizes,
                      llvm::ArrayRef<mlir::StringAttr> names, mlir::AffineExpr expression);
/// A dimension, and all dimensions, of a ranked tensor type as values.
mlir::Value dimValue(IndexMath &math, const SizeValues &sizes, mlir::RankedTensorType type,
                     unsigned dim);
llvm::SmallVector<mlir::Value> dimValues(IndexMath &math, const SizeValues &sizes, mlir::Type type);

} // namespace tensmith::kernel
