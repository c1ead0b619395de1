// The scale's states, and what depends on them; see LossScale.h.
#include "compiler/training/LossScale.h"

#include "compiler/graph/States.h"

#include <limits>

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

constexpr float kFirstScale = 65536, kLeast = 1, kMost = 0x1p40;
constexpr double kGoodSteps = 2000;

Value isFinite(Value wide, const GraphCode &code) {
  Value most = code.scalar(wide, std::numeric_limits<float>::max());
  return code.op("graph.less_or_equal", {code.unary("graph.abs", wide), most});
}

} // namespace

Result<LossScale> LossScale::add(StepFunction &step) {
  Builder builder(step.function.getContext());
  LossScale result;
  auto number = RankedTensorType::get({}, builder.getF32Type());
  auto scale = step.addState("loss_scale", number, StateKind::Slot,
                             DenseElementsAttr::get(number, kFirstScale));
  if (!scale.ok())
    return scale.status();
  auto count = RankedTensorType::get({}, builder.getI64Type());
  auto good = step.addState("loss_scale_steps", count, StateKind::Slot, {});
  if (!good.ok())
    return good.status();
  result.scale_ = *scale;
  result.good_ = *good;
  return result;
}

Value LossScale::scaled(Value loss, const GraphCode &code) const {
  return code.mul(loss, code.cast(scale_, GraphCode::element(loss)));
}

void LossScale::unscale(std::vector<Value> &gradients, const GraphCode &code) {
  Value inverse = code.div(code.scalar(scale_, 1), scale_), flaws = code.scalar(scale_, 0);
  for (Value &gradient : gradients) {
    // In a half the least inverse would be 0, and the largest float infinite.
    Value wide = code.widen(gradient);
    Value flaw = code.where(isFinite(wide, code), code.scalar(scale_, 0), code.scalar(scale_, 1));
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, GraphCode::rank(flaw)));
    flaw = code.reduce("graph.reduce_max", flaw, axes, false);
    flaws = code.op("graph.max", {flaws, flaw}); // of no elements the largest is -inf
    Type element = GraphCode::element(gradient);
    gradient = code.cast(code.mul(wide, code.cast(inverse, GraphCode::element(wide))), element);
  }
  isFinite_ = code.op("graph.less", {flaws, code.scalar(scale_, 1)});
}

void LossScale::judge(Value factor, const GraphCode &code) { isFinite_ = isFinite(factor, code); }

void LossScale::guard(StepFunction &step, const GraphCode &code) const {
  Operation *exit = step.exit();
  for (BlockArgument argument : step.block().getArguments())
    if (auto number =
            step.function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), graph::kState)) {
      auto result = unsigned(number.getInt());
      exit->setOperand(result, code.where(isFinite_, exit->getOperand(result), argument));
    }
  Value next = code.add(good_, 1);
  Value isDue = code.op("graph.greater_or_equal", {next, code.scalar(next, kGoodSteps)});
  Value more = code.op("graph.min", {code.mul(scale_, 2), code.scalar(scale_, kMost)});
  Value less = code.op("graph.max", {code.mul(scale_, 0.5), code.scalar(scale_, kLeast)});
  Value none = code.scalar(next, 0);
  Value scale = code.where(isFinite_, code.where(isDue, more, scale_), less);
  Value count = code.where(isFinite_, code.where(isDue, none, next), none);
  step.update({{scale_, scale}, {good_, count}});
}

} // namespace tensmith::training
