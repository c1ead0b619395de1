// A sum over classes of which one alone isn't zero is that one.
//
// before: reduce_sum(where(iota == t, x, 0))     after: where(0 <= t < classes, x[t], 0)
//
// Cross-entropy is written with comparisons, so that its gradient is element-wise; both the loss
// and the gradient through its softmax sum over such a row then. t has one element for each row,
// and so has the result, which is summed over what other dimensions there are.
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// The sum, as it was found.
struct OneHotSum {
  graph::ReduceSumOp sum;
  Value number, element; // t and x
  int64_t axis, classes;
};

RankedTensorType rankedType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

bool isZero(Value value) {
  DenseFPElementsAttr zeros;
  return matchPattern(value, m_Constant(&zeros)) && zeros.isSplat() &&
         zeros.getSplatValue<APFloat>().isPosZero();
}

/// Whether the type is the other but for one element along the axis.
bool isOnePerRow(RankedTensorType type, RankedTensorType whole, int64_t axis) {
  if (!type || type.getRank() != whole.getRank() || type.getDimSize(axis) != 1)
    return false;
  graph::ShapeContext shapes(whole.getContext());
  auto own = shapes.dims(type), all = shapes.dims(whole);
  for (int64_t dim = 0; dim < whole.getRank(); ++dim)
    if (dim != axis && !shapes.equal(own[dim], all[dim]))
      return false;
  return true;
}

/// Whether the value is the same all along the axis of what it is broadcast to.
bool isConstantAlong(RankedTensorType type, RankedTensorType whole, int64_t axis) {
  int64_t own = type ? axis - (whole.getRank() - type.getRank()) : 0;
  return type && (own < 0 || type.getDimSize(own) == 1);
}

/// Whether each class is a number of that type, which a place can be told by: bytes would wrap, and
/// of floats one may lie between two classes.
bool numbersClasses(Type type, int64_t classes) {
  return (type.isSignlessInteger(32) || type.isSignlessInteger(64)) &&
         llvm::isIntN(type.getIntOrFloatBitWidth(), classes - 1);
}

std::optional<OneHotSum> match(graph::ReduceSumOp sum) {
  auto where = sum.getX().getDefiningOp<graph::WhereOp>();
  auto equal = where ? where.getCondition().getDefiningOp<graph::EqualOp>() : graph::EqualOp();
  auto whole = where ? rankedType(where.getResult()) : RankedTensorType();
  if (!equal || !whole || !isZero(where.getB()))
    return std::nullopt;
  auto iota = equal.getA().getDefiningOp<graph::IotaOp>();
  Value number = iota ? equal.getB() : equal.getA();
  if (!iota)
    iota = equal.getB().getDefiningOp<graph::IotaOp>();
  if (!iota || whole.clone(getElementTypeOrSelf(iota.getType())) != iota.getType())
    return std::nullopt;
  int64_t axis = iota.getAxis(), classes = whole.getDimSize(axis);
  auto element = rankedType(where.getA());
  if (!llvm::is_contained(sum.getAxes(), axis) || ShapedType::isDynamic(classes) || classes == 0 ||
      !numbersClasses(getElementTypeOrSelf(iota.getType()), classes) ||
      !isOnePerRow(rankedType(number), whole, axis) ||
      (element != whole && !isConstantAlong(element, whole, axis)))
    return std::nullopt;
  return OneHotSum{sum, number, where.getA(), axis, classes};
}

/// The sum as said above; null where the types say different things.
Value picked(OneHotSum &of) {
  OpBuilder builder(of.sum);
  graph::ShapeContext shapes(of.sum.getContext());
  graph::GraphBuilder graph(builder, shapes, of.sum.getLoc());
  Type integer = getElementTypeOrSelf(of.number.getType()),
       real = getElementTypeOrSelf(of.element.getType());
  Value zero = graph.scalar(integer, 0), last = graph.scalar(integer, double(of.classes - 1));
  Value low = graph.binary("graph.greater_or_equal", of.number, zero);
  Value high = graph.binary("graph.less_or_equal", of.number, last);
  Value inside = graph.binary("graph.and", low, high), element = of.element;
  if (!isConstantAlong(rankedType(element), rankedType(of.sum.getX()), of.axis)) {
    Value number = graph.binary("graph.min", graph.binary("graph.max", of.number, zero), last);
    element = graph::GraphBuilder::first(
        graph.create("graph.gather_elements", {element, number},
                     graph.named("axis", builder.getI64IntegerAttr(of.axis))));
  }
  Value one = graph::GraphBuilder::first(
      graph.create("graph.where", {inside, element, graph.scalar(real, 0)}));
  auto result = cast<RankedTensorType>(of.sum.getType());
  if (!one || one.getType() == result)
    return one;
  if (of.sum.getAxes().size() == 1)
    return graph.reshape(one, shapes.dims(result));
  return graph.reduce("graph.reduce_sum", one, of.sum.getAxes(), of.sum.getKeepdims());
}

} // namespace

LogicalResult pickOneHot(func::FuncOp function, const Options &) {
  SmallVector<OneHotSum> sums;
  function.walk([&](graph::ReduceSumOp sum) {
    if (auto found = match(sum))
      sums.push_back(*found);
  });
  for (OneHotSum &found : sums)
    if (Value value = picked(found); value && value.getType() == found.sum.getType()) {
      found.sum->getResult(0).replaceAllUsesWith(value);
      found.sum.erase();
    }
  return success();
}

} // namespace tensmith::rewrite
