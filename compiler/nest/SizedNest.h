// A nest whose sizes are those of the graph's types.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/nest/Nest.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace tensmith::nest {

/// A nest of which parameters are functions of sizes.
struct SizedNest {
  Nest nest;
  std::vector<mlir::AffineExpr> parameters; // over `symbols`
  std::vector<mlir::StringAttr> symbols;
  std::shared_ptr<mlir::Region> region = {}; // that functions of the nest are of; null: a kernel's
};

/// Expressions over symbols of sizes as affine ones over the nest's parameters. What is not affine
/// in sizes is a parameter; of a quotient by a constant its bounds are put into the context.
class Parameters {
public:
  Parameters(SizedNest &into, graph::ShapeContext &shapes) : into_(into), shapes_(shapes) {}

  Affine affine(mlir::AffineExpr value);
  std::vector<Affine> extents(mlir::Type rankedTensor);

private:
  std::string parameter(mlir::AffineExpr value);
  Affine quotient(mlir::AffineBinaryOpExpr value, int64_t divisor);

  SizedNest &into_;
  graph::ShapeContext &shapes_;
  llvm::DenseMap<mlir::AffineExpr, std::string> known_;
};

/// 16-bit floats are computed as f32, and rounded where they are stored.
DataType computedAs(DataType type);

} // namespace tensmith::nest
