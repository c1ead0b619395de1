// Writes decompositions as expressions: the builder's operators with what failed passed along.
//
// A value is null after an error, and every operator of a null value is null: a decomposition is
// written as a formula and looks once, at its end, whether it came out.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"

#include "mlir/IR/TypeUtilities.h"

namespace tensmith::graph {

class GraphCode {
public:
  using Value = mlir::Value;
  using Dims = llvm::SmallVector<mlir::AffineExpr>;

  explicit GraphCode(GraphBuilder &graph) : graph(graph), builder(graph.builder) {}

  Value unary(llvm::StringRef name, Value x) const { return op(name, {x}); }
  Value add(Value a, Value b) const { return op("graph.add", {a, b}); }
  Value sub(Value a, Value b) const { return op("graph.sub", {a, b}); }
  Value mul(Value a, Value b) const { return op("graph.mul", {a, b}); }
  Value div(Value a, Value b) const { return op("graph.div", {a, b}); }
  Value matmul(Value a, Value b) const { return op("graph.matmul", {a, b}); }
  Value where(Value condition, Value a, Value b) const {
    return op("graph.where", {condition, a, b});
  }
  Value add(Value a, double b) const { return a ? add(a, scalar(a, b)) : a; }
  Value mul(Value a, double b) const { return a ? mul(a, scalar(a, b)) : a; }
  Value rsqrt(Value a) const { return unary("graph.rsqrt", a); }

  /// Any operator with one result, by name.
  Value op(llvm::StringRef name, llvm::ArrayRef<Value> operands,
           llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) const {
    if (llvm::is_contained(operands, Value()))
      return {};
    return GraphBuilder::first(graph.create(name, operands, attributes));
  }
  mlir::NamedAttribute integer(llvm::StringRef name, int64_t value) const {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  }
  mlir::NamedAttribute integers(llvm::StringRef name, llvm::ArrayRef<int64_t> values) const {
    return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values));
  }

  static mlir::Type element(Value x) {
    return x ? mlir::getElementTypeOrSelf(x.getType()) : mlir::Type();
  }
  static bool isAbsent(Value x) { return !x || mlir::isa<mlir::NoneType>(x.getType()); }
  static bool isRanked(Value x) { return x && mlir::isa<mlir::RankedTensorType>(x.getType()); }
  static int64_t rank(Value x) { return mlir::cast<mlir::RankedTensorType>(x.getType()).getRank(); }
  Dims dims(Value x) const { return graph.shapes.dims(x.getType()); }
  mlir::AffineExpr size(int64_t value) const { return graph.shapes.constant(value); }

  /// A constant of the element type of `like`.
  Value scalar(Value like, double value) const { return graph.scalar(element(like), value); }
  Value cast(Value x, mlir::Type to) const {
    return !x || element(x) == to ? x : graph.cast(x, to);
  }
  /// Halves as f32: what their sums are computed in.
  Value widen(Value x) const {
    bool isHalf = x && (element(x).isF16() || element(x).isBF16());
    return isHalf ? cast(x, builder.getF32Type()) : x;
  }
  Value reshape(Value x, llvm::ArrayRef<mlir::AffineExpr> to) const {
    return x ? graph.reshape(x, to) : x;
  }
  Value broadcast(Value x, llvm::ArrayRef<mlir::AffineExpr> to) const {
    return x ? graph.broadcast(x, to) : x;
  }
  Value transpose(Value x, llvm::ArrayRef<int64_t> permutation) const {
    return x ? graph.transpose(x, permutation) : x;
  }
  Value reduce(llvm::StringRef name, Value x, llvm::ArrayRef<int64_t> axes, bool keepdims) const {
    return x ? graph.reduce(name, x, axes, keepdims) : x;
  }
  Value concat(llvm::ArrayRef<Value> inputs, int64_t axis) const {
    if (llvm::is_contained(inputs, Value()))
      return {};
    return inputs.size() == 1 ? inputs[0] : graph.concat(inputs, axis);
  }
  Value slice(Value x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<mlir::AffineExpr> to) const {
    return x ? graph.slice(x, starts, llvm::SmallVector<int64_t>(starts.size(), 1), to) : x;
  }
  Value iota(llvm::ArrayRef<mlir::AffineExpr> shape, int64_t axis) const {
    mlir::Type type = graph.shapes.tensorType(builder.getI64Type(), shape);
    return GraphBuilder::first(graph.createTyped("graph.iota", type, {}, {integer("axis", axis)}));
  }
  /// The size of a dimension as a scalar of i64. As are the two below, null where x is of unknown
  /// rank.
  Value sizeOf(Value x, int64_t dim) const {
    if (!isRanked(x))
      return {};
    mlir::AffineExpr expression = dims(x)[dim];
    if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expression))
      return graph.scalar(builder.getI64Type(), double(constant.getValue()));
    return reshape(op("graph.shape", {x}, {integer("start", dim), integer("end", dim + 1)}), {});
  }
  /// The mean over consecutive axes, kept as ones.
  Value mean(Value x, llvm::ArrayRef<int64_t> axes) const {
    if (!isRanked(x))
      return {};
    Value sum = reduce("graph.reduce_sum", x, axes, true);
    Value count;
    Dims all = dims(x), reduced;
    for (int64_t axis : axes)
      reduced.push_back(all[axis]);
    if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(graph.shapes.product(reduced))) {
      count = scalar(x, double(constant.getValue()));
    } else {
      count = graph.scalar(builder.getI64Type(), 1);
      for (int64_t axis : axes)
        count = mul(count, sizeOf(x, axis));
      count = cast(count, element(x));
    }
    return div(sum, count);
  }
  /// A vector as [1, ..., n, ..., 1], to broadcast along one dimension.
  Value alongDimension(Value vector, int64_t dim, int64_t rank) const {
    if (!isRanked(vector) || this->rank(vector) != 1)
      return {};
    Dims to(rank, size(1));
    to[dim] = dims(vector)[0];
    return reshape(vector, to);
  }

  GraphBuilder &graph;
  mlir::OpBuilder &builder;
};

/// Hands over the results of a decomposition, each of the type of the operator's own; fails where
/// one is missing.
inline mlir::LogicalResult finish(llvm::ArrayRef<mlir::Value> values,
                                  llvm::SmallVectorImpl<mlir::Value> &results) {
  if (llvm::is_contained(values, mlir::Value()))
    return mlir::failure();
  results.append(values.begin(), values.end());
  return mlir::success();
}

} // namespace tensmith::graph
