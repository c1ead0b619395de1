// The largest of scaled codes is the largest code, scaled.
//
// before: max_pool(min(max(round(y), low), high) * scale)
// after:  cast(max_pool(cast(min(max(round(y), low), high), i16)), f32) * scale
//
// before: max_pool(cast(codes, f32) * scale)
// after:  cast(max_pool(cast(codes, i16)), f32) * scale
//
// for a constant scale above zero: rounding a product keeps the order of what is multiplied, so
// that the numbers are the same. In memory there are codes, of half the bytes, and vectors of twice
// the elements. A window must have an image's element in it: of nothing the largest code is no
// number.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isScale(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto type = constant ? dyn_cast<RankedTensorType>(constant.getType()) : RankedTensorType();
  if (!type || type.getNumElements() != 1 || !type.getElementType().isF32())
    return false;
  graph::Bounds bounds = graph::boundsOf(value);
  return bounds.numbers && bounds.low > 0 && bounds.high <= std::numeric_limits<float>::max();
}

/// Whether the value is rounded from numbers, none of them NaN, and limited to 16 bits, or from
/// integers of as many.
bool areCodes(Value value) {
  constexpr int64_t kLargest = std::numeric_limits<int16_t>::max();
  if (auto cast = value.getDefiningOp<graph::CastOp>()) {
    Type stored = getElementTypeOrSelf(cast.getX().getType());
    return stored.isInteger(8) || stored.isSignlessInteger(16);
  }
  if (!graph::boundsOf(value).within(-kLargest, kLargest))
    return false;
  while (isa_and_nonnull<graph::MinOp, graph::MaxOp>(value.getDefiningOp())) {
    graph::Bounds limit = graph::boundsOf(value.getDefiningOp()->getOperand(1));
    if (limit.low != limit.high || limit.low != std::nearbyint(limit.low))
      return false;
    value = value.getDefiningOp()->getOperand(0);
  }
  auto rounded = value.getDefiningOp<graph::RoundOp>();
  return rounded && graph::boundsOf(rounded.getX()).numbers;
}

bool hasFullWindows(graph::MaxPoolOp pool) {
  ArrayRef<int64_t> kernel = pool.getKernel(), pads = pool.getPads();
  bool dilated = llvm::any_of(pool.getDilations(), [](int64_t d) { return d != 1; });
  if (dilated || pads.size() != 2 * kernel.size())
    return false;
  auto x = dyn_cast<RankedTensorType>(pool.getX().getType()),
       y = dyn_cast<RankedTensorType>(pool.getType());
  size_t spatial = graph::isChannelsLast(pool) ? 1 : 2; // the first such dimension
  for (size_t dim = 0; dim < kernel.size(); ++dim) {
    if (pads[dim] >= kernel[dim] || pads[dim + kernel.size()] >= kernel[dim])
      return false;
    if (!pool.getCeilMode())
      continue;
    // The last one may begin behind the image.
    if (!x || !y || x.isDynamicDim(spatial + dim) || y.isDynamicDim(spatial + dim) ||
        (y.getDimSize(spatial + dim) - 1) * pool.getStrides()[dim] - pads[dim] >=
            x.getDimSize(spatial + dim))
      return false;
  }
  return true;
}

void poolBeforeScaling(graph::MaxPoolOp pool, graph::MulOp scaled) {
  OpBuilder builder(pool);
  graph::ShapeContext shapes(pool.getContext());
  graph::GraphBuilder graph(builder, shapes, pool.getLoc());
  bool first = isScale(scaled.getA());
  Value codes = first ? scaled.getB() : scaled.getA(),
        scale = first ? scaled.getA() : scaled.getB();
  NamedAttrList attributes(pool->getAttrs());
  Value pooled = graph::GraphBuilder::first(
      graph.create("max_pool", graph.cast(codes, builder.getI16Type()), attributes.getAttrs()));
  Value y = graph.binary("mul", graph.cast(pooled, builder.getF32Type()), scale);
  y.setType(pool.getType());
  pool.getResult().replaceAllUsesWith(y);
  pool->erase();
  scaled->erase();
}

} // namespace

LogicalResult poolCodes(func::FuncOp function, const Options &) {
  SmallVector<graph::MaxPoolOp> pools;
  function.walk([&](graph::MaxPoolOp op) { pools.push_back(op); });
  for (graph::MaxPoolOp pool : pools) {
    auto scaled = pool.getX().getDefiningOp<graph::MulOp>();
    if (!scaled || !scaled->hasOneUse() || !hasFullWindows(pool) ||
        !getElementTypeOrSelf(pool.getType()).isF32())
      continue;
    bool first = isScale(scaled.getA()), second = isScale(scaled.getB());
    if (first != second && areCodes(first ? scaled.getB() : scaled.getA()))
      poolBeforeScaling(pool, scaled);
  }
  return success();
}

} // namespace tensmith::rewrite
