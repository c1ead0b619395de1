// Recognises b / a as whole numbers; see WholeBiases.h.
#include "compiler/rewrite/WholeBiases.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/GraphCode.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// What a and b lose to the roundings that made them of scales: of f32, and of a part of the whole.
constexpr double kRounding = 8 * 0x1p-24;
/// A product of bytes at most, with a sign or without.
constexpr double kLargestProduct = 255 * 255;

/// The operands of `value`, if only the rest of the pattern reads it: a constant, and what is none.
template <typename Op> struct WithConstant {
  explicit WithConstant(Value value) {
    op = value.getDefiningOp<Op>();
    if (!op || !value.hasOneUse())
      return;
    bool isFirst = isa_and_nonnull<graph::ConstantOp>(op->getOperand(0).getDefiningOp());
    constant = graph::constantTensor(op->getOperand(isFirst ? 0 : 1));
    rest = op->getOperand(isFirst ? 1 : 0);
  }
  explicit operator bool() const { return constant.has_value(); }

  Op op;
  std::optional<HostTensor> constant;
  Value rest;
};

/// The largest sum of products of bytes; nothing of other sums.
std::optional<double> largestSum(Value sums) {
  Operation *root = sums.getDefiningOp();
  if (!isa_and_nonnull<graph::ConvOp, graph::MatMulOp>(root))
    return std::nullopt;
  auto conv = dyn_cast<graph::ConvOp>(root);
  auto right = dyn_cast<RankedTensorType>(root->getOperand(1).getType());
  bool areBytes = right && right.getElementType().isInteger(8) &&
                  getElementTypeOrSelf(root->getOperand(0).getType()).isInteger(8);
  if (!areBytes || right.getRank() < 2 || (conv && !graph::GraphCode::isAbsent(conv.getBias())))
    return std::nullopt;
  ArrayRef<int64_t> shape = right.getShape();
  double largest = kLargestProduct;
  for (int64_t size : conv ? shape.drop_front() : shape.drop_back().take_back()) {
    if (ShapedType::isDynamic(size))
      return std::nullopt;
    largest *= double(size);
  }
  return largest;
}

/// float(sums - k) * a + b, of constants for each column or for all.
struct Pattern {
  graph::AddOp biased;
  graph::MulOp scaled;
  graph::CastOp number;
  Value sums;
  HostTensor k, a, b;
};

/// Of the constants' shapes the one that all have, or that has more than one element.
const HostTensor *widest(const Pattern &pattern) {
  const HostTensor *most = &pattern.k;
  for (const HostTensor *tensor : {&pattern.a, &pattern.b})
    if (tensor->size() > most->size())
      most = tensor;
  for (const HostTensor *tensor : {&pattern.k, &pattern.a, &pattern.b})
    if (tensor->size() != 1 && tensor->shape() != most->shape())
      return nullptr;
  return most;
}

/// k - b / a, where b / a is a whole number at each place and sums hold what comes of it.
std::optional<HostTensor> merged(const Pattern &pattern) {
  auto largest = largestSum(pattern.sums);
  const HostTensor *shape = largest ? widest(pattern) : nullptr;
  HostTensor result = shape ? HostTensor(DataType::I32, shape->shape()) : HostTensor();
  if (!shape || !result.valid())
    return std::nullopt;
  for (int64_t i = 0; i < result.size(); ++i) {
    auto at = [&](const HostTensor &tensor) {
      return tensor.getDouble(tensor.size() == 1 ? 0 : i);
    };
    double steps = at(pattern.b) / at(pattern.a), whole = std::nearbyint(steps);
    double taken = at(pattern.k) - whole;
    bool isWhole = std::abs(steps - whole) <= kRounding * std::max(std::abs(whole), 1.0);
    if (!isWhole || !(std::abs(taken) + *largest < double(std::numeric_limits<int32_t>::max())))
      return std::nullopt;
    result.setInt(i, int64_t(taken));
  }
  return result;
}

/// Codes whose zero point is zero have nothing taken off: k is zero.
std::optional<Pattern> match(graph::RoundOp round) {
  WithConstant<graph::AddOp> biased(round.getX());
  if (!biased)
    return std::nullopt;
  WithConstant<graph::MulOp> scaled(biased.rest);
  auto number = scaled ? scaled.rest.getDefiningOp<graph::CastOp>() : graph::CastOp();
  if (!number || !number->hasOneUse() || !number.getX().hasOneUse())
    return std::nullopt;
  WithConstant<graph::SubOp> offset(number.getX());
  bool isOffset = offset && offset.rest == offset.op.getA();
  Pattern pattern{biased.op,
                  scaled.op,
                  number,
                  isOffset ? offset.rest : number.getX(),
                  isOffset ? *offset.constant : HostTensor(DataType::I32, {}),
                  *scaled.constant,
                  *biased.constant};
  auto type = dyn_cast<RankedTensorType>(pattern.sums.getType());
  bool fits = type && type.getElementType().isSignlessInteger(32) && pattern.sums.hasOneUse() &&
              number.getX().getType() == type && pattern.k.valid() &&
              pattern.a.type() == DataType::F32 && pattern.b.type() == DataType::F32 &&
              scaled.op.getType() == number.getType() && biased.op.getType() == number.getType();
  return fits ? std::optional(pattern) : std::nullopt;
}

} // namespace

void mergeWholeBias(graph::RoundOp round) {
  auto pattern = match(round);
  auto taken = pattern ? merged(*pattern) : std::nullopt;
  if (!taken)
    return;
  OpBuilder builder(pattern->number);
  graph::ShapeContext shapes(builder.getContext());
  graph::GraphBuilder graph(builder, shapes, round.getLoc());
  Operation *before = pattern->number.getX().getDefiningOp();
  pattern->number->setOperand(0, graph.binary("sub", pattern->sums, graph.constant(*taken)));
  if (before->use_empty())
    before->erase();
  round->setOperand(0, pattern->scaled.getResult());
  pattern->biased.erase();
}

} // namespace tensmith::rewrite
