// Scales around what is rounded are multiplied into the constants before it: those behind a sum,
// and those of the images that its convolutions read. A bias that is a whole number of the sum's
// scale then becomes part of where the sum begins (WholeBiases.h).
//
// A quantised model scales each sum of products to a number, adds a bias or another branch, and
// scales again before it rounds to a code:
//
//   round((x * a + b) * c)          ->  round(x * (a * c) + b * c)
//   round((x * a + y * b) * c)      ->  round(x * (a * c) + y * (b * c))
//   round(conv(x * a, w, b) * c)    ->  round(conv(x, w * (a * c), b * c))
//
// for constants a, b, c and w (or a quotient by c), which takes an operation from each element. The
// number that is rounded differs in its last bits, as it does between any two ways of scaling a
// code: where it is halfway between two codes, the other one may come out. So it is for the policy
// `fast` alone, and only where the result is rounded anyway. Constants that would overflow or lose
// bits stay.
#include "compiler/graph/Constants.h"
#include "compiler/graph/DeadCode.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/GraphCode.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/rewrite/WholeBiases.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr int kDepth = 4;                     // of additions
constexpr int64_t kLargestConstant = 1 << 16; // elements: scales and biases, not pictures

bool isConstant(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto type = constant ? dyn_cast<RankedTensorType>(constant.getType()) : RankedTensorType();
  return type && type.getElementType().isF32() && type.getNumElements() <= kLargestConstant;
}

bool isScalar(Value value) {
  return isConstant(value) && cast<RankedTensorType>(value.getType()).getNumElements() == 1;
}

/// Whether it is one of f32 with constant weights, and a constant bias or none.
bool isOfConstants(Operation *op) {
  auto conv = dyn_cast<graph::ConvOp>(op);
  return conv && getElementTypeOrSelf(conv.getType()).isF32() && isConstant(conv.getW()) &&
         (graph::GraphCode::isAbsent(conv.getBias()) || isConstant(conv.getBias()));
}

/// Whether a factor can be multiplied into constants that `value` is computed from.
bool takesFactor(Value value, int depth = kDepth) {
  if (isConstant(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || !value.hasOneUse())
    return false;
  if (isa<graph::MulOp>(op))
    return isConstant(op->getOperand(0)) || isConstant(op->getOperand(1));
  if (isOfConstants(op))
    return true;
  return isa<graph::AddOp>(op) && takesFactor(op->getOperand(0), depth - 1) &&
         takesFactor(op->getOperand(1), depth - 1);
}

/// Whether the constant has normal numbers alone, and zeros only where `from` has them.
bool isSound(graph::ConstantOp constant, graph::ConstantOp from) {
  auto tensor = graph::hostTensor(constant.getValue()), before = graph::hostTensor(from.getValue());
  if (!tensor.ok() || !before.ok() || tensor->size() != before->size())
    return false;
  for (int64_t i = 0; i < tensor->size(); ++i) {
    double magnitude = std::abs(tensor->getDouble(i));
    bool isNormal = magnitude >= double(std::numeric_limits<float>::min());
    if (!std::isfinite(magnitude) || (!isNormal && before->getDouble(i) != 0))
      return false;
  }
  return true;
}

Value withWeights(OpBuilder &builder, graph::ConvOp conv, Value x, Value weights, Value bias) {
  Operation *other = builder.clone(*conv);
  other->setOperands({x, weights, bias});
  return other->getResult(0);
}

/// value * factor, without an operation more; null where a constant can't be made.
Value multiplied(OpBuilder &builder, Value value, Value factor) {
  graph::ShapeContext shapes(builder.getContext());
  graph::GraphBuilder graph(builder, shapes, value.getLoc());
  if (isConstant(value)) {
    Value product = foldedConstant(graph.binary("mul", value, factor), builder);
    auto constant = product ? product.getDefiningOp<graph::ConstantOp>() : graph::ConstantOp();
    bool sound = constant && isSound(constant, value.getDefiningOp<graph::ConstantOp>());
    return sound ? product : Value();
  }
  Operation *op = value.getDefiningOp();
  if (auto conv = dyn_cast<graph::ConvOp>(op)) {
    bool hasBias = !graph::GraphCode::isAbsent(conv.getBias());
    Value weights = multiplied(builder, conv.getW(), factor);
    Value bias = hasBias ? multiplied(builder, conv.getBias(), factor) : conv.getBias();
    bool fit = weights && bias && weights.getType() == conv.getW().getType() &&
               bias.getType() == conv.getBias().getType();
    return fit ? withWeights(builder, conv, conv.getX(), weights, bias) : Value();
  }
  Value a = op->getOperand(0), b = op->getOperand(1);
  bool isSum = isa<graph::AddOp>(op), first = !isSum && isConstant(a);
  if (isSum || first)
    a = multiplied(builder, a, factor);
  if (a && (isSum || !first))
    b = multiplied(builder, b, factor);
  if (!a || !b)
    return {};
  return graph.binary(isSum ? "add" : "mul", a, b);
}

/// What is rounded, as a product with a scalar constant: a quotient is one, too.
struct Scaled {
  Value sum, factor;
};
std::optional<Scaled> scaledBefore(graph::RoundOp round, OpBuilder &builder) {
  Operation *op = round.getX().getDefiningOp();
  if (!op || !op->hasOneUse() || !isa<graph::MulOp, graph::DivOp>(op))
    return std::nullopt;
  Scaled scaled{op->getOperand(0), op->getOperand(1)};
  if (isa<graph::MulOp>(op) && isConstant(scaled.sum))
    std::swap(scaled.sum, scaled.factor);
  if (!isConstant(scaled.factor) || isConstant(scaled.sum) || !takesFactor(scaled.sum) ||
      !isScalar(scaled.factor))
    return std::nullopt;
  if (isa<graph::DivOp>(op)) {
    graph::ShapeContext shapes(builder.getContext());
    graph::GraphBuilder graph(builder, shapes, op->getLoc());
    Value one = graph.scalar(builder.getF32Type(), 1);
    scaled.factor = foldedConstant(graph.binary("div", one, scaled.factor), builder);
  }
  auto constant = scaled.factor ? scaled.factor.getDefiningOp<graph::ConstantOp>() : nullptr;
  return constant && isSound(constant, constant) ? std::optional(scaled) : std::nullopt;
}

/// Of the convolutions that `value` sums up, what their images are multiplied by goes into their
/// weights.
void mergeImageScales(OpBuilder &builder, Value value, int depth = kDepth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || !value.hasOneUse())
    return;
  if (isa<graph::AddOp, graph::MulOp>(op))
    for (Value operand : SmallVector<Value>(op->getOperands()))
      mergeImageScales(builder, operand, depth - 1);
  auto scaled = isOfConstants(op) ? op->getOperand(0).getDefiningOp<graph::MulOp>() : nullptr;
  if (!scaled || !scaled->hasOneUse())
    return;
  Value image = scaled.getA(), factor = scaled.getB();
  if (isScalar(image))
    std::swap(image, factor);
  if (!isScalar(factor) || image.getType() != scaled.getType())
    return;
  auto conv = cast<graph::ConvOp>(op);
  builder.setInsertionPoint(conv);
  Value weights = multiplied(builder, conv.getW(), factor);
  if (weights && weights.getType() == conv.getW().getType()) {
    value.replaceAllUsesWith(withWeights(builder, conv, image, weights, conv.getBias()));
    graph::eraseUnused(conv);
  }
}

} // namespace

LogicalResult mergeScales(func::FuncOp function, const Options &options) {
  if (options.precision == Precision::Exact)
    return success();
  SmallVector<graph::RoundOp> rounded;
  function.walk([&](graph::RoundOp op) { rounded.push_back(op); });
  for (graph::RoundOp round : rounded) {
    OpBuilder builder(round);
    auto scaled = scaledBefore(round, builder);
    Value merged = scaled ? multiplied(builder, scaled->sum, scaled->factor) : Value();
    Value before = round.getX();
    if (merged && merged.getType() == before.getType()) {
      round->setOperand(0, merged);
      graph::eraseUnused(before.getDefiningOp());
    }
    mergeImageScales(builder, round.getX());
    mergeWholeBias(round);
  }
  return success();
}

} // namespace tensmith::rewrite
