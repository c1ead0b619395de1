// Numbers that become codes are limited as integers.
//
// before: cast(min(max(round(y), low), high), i16), of f32
// after:  cast(min(max(cast(round(y), i32), low), high), i16)
//
// where y is known to be a number, and no larger than an i32 holds: a sum of products of codes,
// scaled by constants. The first cast then needs no check, and is the rounding itself on a machine
// that rounds as it converts; NaN, which has zero's code, doesn't have to be found out; and a
// compiler that sees that integers fit 16 bits packs two vectors into one by an instruction.
//
// At policy fast the product and the sum before the rounding may be rounded together. That is
// nearer to the exact number than one after the other, but may be the other side of a tie.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/rewrite/Rewrites.h"

#include <cmath>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr double kLargestNumber = 1 << 30;
constexpr int kDepth = 4; // of sums

/// A minimum or maximum with a whole constant, which nothing else reads.
struct Limit {
  Operation *op;
  int64_t bound;
};
std::optional<Limit> limitOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<graph::MinOp, graph::MaxOp>(op) || !value.hasOneUse())
    return std::nullopt;
  auto constant = op->getOperand(1).getDefiningOp<graph::ConstantOp>();
  auto type = constant ? dyn_cast<RankedTensorType>(constant.getType()) : RankedTensorType();
  if (!type || !type.getElementType().isF32() || type.getNumElements() != 1 ||
      op->getOperand(0).getType() != op->getResult(0).getType())
    return std::nullopt;
  auto tensor = graph::hostTensor(constant.getValue());
  double bound = tensor.ok() ? tensor->getDouble(0) : 0.5;
  if (bound != std::nearbyint(bound) || std::abs(bound) > kLargestNumber)
    return std::nullopt;
  return Limit{op, int64_t(bound)};
}

/// What is cast, from the rounding on.
struct Codes {
  graph::RoundOp rounded;
  SmallVector<Limit> limits; // the last first
};
std::optional<Codes> codesOf(graph::CastOp op) {
  auto to = dyn_cast<IntegerType>(op.getTo());
  Codes codes;
  Value value = op.getX();
  while (auto limit = limitOf(value)) {
    codes.limits.push_back(*limit);
    value = limit->op->getOperand(0);
  }
  codes.rounded = value.getDefiningOp<graph::RoundOp>();
  bool fits = to && to.getWidth() >= 8 && to.getWidth() <= 16 && !codes.limits.empty() &&
              codes.rounded && value.hasOneUse() && getElementTypeOrSelf(value.getType()).isF32();
  if (!fits)
    return std::nullopt;
  graph::Bounds before = graph::boundsOf(codes.rounded.getX());
  if (!before.numbers || !before.within(-kLargestNumber, kLargestNumber))
    return std::nullopt;
  // What the limits leave must fit: a cast from integers wraps around, one from floats saturates.
  graph::Bounds after = graph::boundsOf(op.getX());
  double least = to.isUnsigned() ? 0 : -std::ldexp(1.0, int(to.getWidth()) - 1);
  double most = std::ldexp(1.0, int(to.getWidth()) - (to.isUnsigned() ? 0 : 1)) - 1;
  return after.within(least, most) ? std::optional(codes) : std::nullopt;
}

void limitAsIntegers(graph::CastOp op, Codes codes) {
  OpBuilder builder(op);
  graph::ShapeContext shapes(op.getContext());
  graph::GraphBuilder graph(builder, shapes, op.getLoc());
  Type i32 = builder.getI32Type();
  Value value = graph.cast(codes.rounded.getY(), i32);
  value.getDefiningOp()->setAttr(graph::kInRange, builder.getUnitAttr());
  for (const Limit &limit : llvm::reverse(codes.limits))
    value = graph.binary(isa<graph::MinOp>(limit.op) ? "min" : "max", value,
                         graph.scalar(i32, double(limit.bound)));
  op.getXMutable().assign(value);
  for (const Limit &limit : codes.limits)
    limit.op->erase();
}

/// Marks the sums before a rounding, and the products that they add up.
void contract(Value value, int depth = kDepth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || !isa<graph::AddOp, graph::SubOp, graph::MulOp>(op))
    return;
  op->setAttr(graph::kContract, UnitAttr::get(op->getContext()));
  if (isa<graph::MulOp>(op))
    return;
  for (Value operand : op->getOperands())
    contract(operand, depth - 1);
}

} // namespace

LogicalResult limitCodes(func::FuncOp function, const Options &options) {
  SmallVector<graph::CastOp> casts;
  SmallVector<graph::RoundOp> rounded;
  function.walk([&](Operation *op) {
    if (auto cast = dyn_cast<graph::CastOp>(op))
      casts.push_back(cast);
    else if (auto round = dyn_cast<graph::RoundOp>(op))
      rounded.push_back(round);
  });
  for (graph::CastOp op : casts)
    if (auto codes = codesOf(op))
      limitAsIntegers(op, *codes);
  for (graph::RoundOp op : rounded)
    if (options.precision != Precision::Exact && getElementTypeOrSelf(op.getType()).isF32())
      contract(op.getX());
  return success();
}

} // namespace tensmith::rewrite
