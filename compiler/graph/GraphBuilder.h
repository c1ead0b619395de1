// Builds operators with their result types inferred: the way in for front ends, decompositions and
// rewrites.
//
// Every `create` runs the operator's shape function, so that a graph under construction has
// complete types, and known contents (shape computations) are followed as it grows.
#pragma once

#include "base/HostTensor.h"
#include "compiler/graph/Graph.h"

#include "mlir/IR/Builders.h"

namespace tensmith::graph {

class GraphBuilder {
public:
  GraphBuilder(mlir::OpBuilder &builder, ShapeContext &shapes, mlir::Location location)
      : builder(builder), shapes(shapes), location(location) {}

  /// The operator with inferred result types; null, with an error emitted at `location`, where they
  /// contradict the record.
  mlir::Operation *create(llvm::StringRef name, mlir::ValueRange operands,
                          llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  template <typename Op>
  Op create(mlir::ValueRange operands, llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    return llvm::cast_or_null<Op>(create(Op::getOperationName(), operands, attributes));
  }
  /// An operator whose result type is given (`reshape`, `broadcast`, `slice`, `iota`, random ones).
  mlir::Operation *createTyped(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands,
                               llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

  // The first (only) result of the commonest ones; null after an error.
  mlir::Value unary(llvm::StringRef name, mlir::Value x) { return first(create(name, x)); }
  mlir::Value binary(llvm::StringRef name, mlir::Value a, mlir::Value b) {
    return first(create(name, {a, b}));
  }
  mlir::Value cast(mlir::Value x, mlir::Type to);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<mlir::AffineExpr> dims);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<mlir::AffineExpr> dims);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value slice(mlir::Value x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps,
                    llvm::ArrayRef<mlir::AffineExpr> sizes);
  mlir::Value concat(mlir::ValueRange inputs, int64_t axis);
  mlir::Value reduce(llvm::StringRef name, mlir::Value x, llvm::ArrayRef<int64_t> axes,
                     bool keepdims);
  mlir::Value constant(const HostTensor &tensor);
  /// A scalar (rank 0) of that element type.
  mlir::Value scalar(mlir::Type element, double value);
  mlir::Value none();

  mlir::NamedAttribute named(llvm::StringRef name, mlir::Attribute value) {
    return builder.getNamedAttr(name, value);
  }
  static mlir::Value first(mlir::Operation *op) { return op ? op->getResult(0) : mlir::Value(); }

  mlir::OpBuilder &builder;
  ShapeContext &shapes;
  mlir::Location location;
};

} // namespace tensmith::graph
