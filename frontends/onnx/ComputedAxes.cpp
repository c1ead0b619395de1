// Shape arithmetic with axes that are data; see ComputedAxes.h.
#include "frontends/onnx/ComputedAxes.h"

#include "compiler/graph/Inference.h"

namespace tensmith::onnx_import {

Value amongAxes(NodeImport &n, Value axes, AffineExpr rank, bool noneAreAll) {
  Value wide = n.cast(axes, n.builder.getI64Type());
  Value rows = n.iota({rank, n.size(1)}, 0);
  Value numbers = n("graph.mod", {wide, n.sizeOf(rows, 0)}); // of the sign of the divisor
  AffineExpr count = n.graph.shapes.product(n.dims(axes));
  Value equal = n("graph.equal", {rows, n.reshape(numbers, {n.size(1), count})});
  Value bytes = n.cast(equal, n.builder.getIntegerType(8, /*isSigned=*/false));
  if (!NodeImport::known(count)) // of none there is no largest
    bytes = n.concat({bytes, n.filled(n.element(bytes), {rank, n.size(1)}, 0)}, 1);
  Value among = n.cast(n.reduce("graph.reduce_max", bytes, {1}, false), n.builder.getI1Type());
  if (!noneAreAll || NodeImport::known(count))
    return among;
  Value isNone = n("graph.equal", {n.unary("graph.size", axes), n.integerScalar(0)});
  return n("graph.or", {among, isNone});
}

Value removeComputedAxes(NodeImport &n, Value x, Value axes, bool noneAreAll) {
  int64_t rank = n.rank(x);
  auto count = NodeImport::known(n.dims(axes)[0]);
  Value keep = n.unary("graph.not", amongAxes(n, axes, n.size(rank), noneAreAll));
  Value target = n("graph.compress", {n("graph.shape", {x}), keep}, n.integer("axis", 0));
  if (count)
    target = n.reshape(target, {n.size(std::max<int64_t>(rank - *count, 0))});
  return n("graph.dynamic_reshape", {x, target}, n.boolean("allowzero", true));
}

Value insertComputedAxes(NodeImport &n, Value x, Value axes) {
  AffineExpr rank = n.graph.shapes.simplify(n.dims(axes)[0] + n.rank(x));
  auto known = NodeImport::known(rank);
  if (known && *known > graph::kMostDimensions) {
    (void)n.error("would have a result of " + llvm::Twine(*known) + " dimensions");
    return {};
  }
  Value among = amongAxes(n, axes, rank);
  if (n.rank(x) == 0 && known)
    return n.reshape(x, NodeImport::Dims(size_t(*known), n.size(1)));
  if (n.rank(x) == 0)
    return n("graph.dynamic_reshape", {x, n.filled(n.builder.getI64Type(), {rank}, 1)},
             n.boolean("allowzero", true));
  // The number of the operand's dimension that each other dimension of the result is.
  Value others = n.cast(n.unary("graph.not", among), n.builder.getI64Type());
  Value number = n("graph.cumsum", {others}, {n.integer("axis", 0), n.boolean("exclusive", true)});
  number = n("graph.min", {number, n.integerScalar(n.rank(x) - 1)});
  Value sizes = n("graph.gather", {n("graph.shape", {x}), number}, n.integer("axis", 0));
  Value target = n.where(among, n.integerScalar(1), sizes);
  return n("graph.dynamic_reshape", {x, target}, n.boolean("allowzero", true));
}

} // namespace tensmith::onnx_import
