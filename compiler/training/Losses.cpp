// Cross-entropy over classes, and the mean of squares; see Losses.h.
#include "compiler/training/Losses.h"

#include <limits>

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

SmallVector<int64_t> axesOf(Value x) {
  return llvm::to_vector(llvm::seq<int64_t>(0, GraphCode::rank(x)));
}

Value sumOf(const GraphCode &code, Value x) {
  return x ? code.reduce("graph.reduce_sum", x, axesOf(x), false) : x;
}

/// -log softmax(x)[target], averaged over the targets that are not negative; a NaN where one is no
/// class, which the gradients don't see. Classes are compared and not looked up, so that the way
/// back is element-wise too.
Result<Loss> crossEntropy(const StepFunction::Output &output, StepFunction &step, GraphCode &code) {
  Value scores = code.widen(output.value);
  if (GraphCode::rank(scores) < 2)
    return invalidArgument("output '" + output.name +
                           "' has no dimension of classes: the loss cross_entropy takes scores as "
                           "[samples, classes, ...]");
  auto all = code.dims(scores), each = all, unit = all;
  each.erase(each.begin() + 1);
  unit[1] = code.size(1);
  auto input =
      step.addInput("target", code.graph.shapes.tensorType(code.builder.getI64Type(), each));
  if (!input.ok())
    return input.status();
  Value target = *input;
  Value hit = code.op("graph.equal", {code.iota(all, 1), code.reshape(target, unit)});
  Value logs = code.op("graph.log_softmax", {scores}, {code.integer("axis", 1)});
  Value picked = code.where(hit, logs, code.scalar(scores, 0));
  Value isCounted = code.op("graph.greater_or_equal", {target, code.scalar(target, 0)});
  Value count = sumOf(code, code.cast(isCounted, GraphCode::element(scores)));
  count = code.op("graph.max", {count, code.scalar(scores, 1)});
  Value isClass = code.op("graph.less", {target, code.sizeOf(scores, 1)});
  Value flaws = code.where(isClass, code.scalar(scores, 0),
                           code.scalar(scores, std::numeric_limits<double>::quiet_NaN()));
  Value sum = code.add(sumOf(code, picked), sumOf(code, flaws));
  Value best = code.op("graph.arg_max", {output.value},
                       {code.integer("axis", 1),
                        code.builder.getNamedAttr("keepdims", code.builder.getBoolAttr(false))});
  Value right = code.cast(code.op("graph.equal", {best, target}), code.builder.getI64Type());
  return Loss{code.div(code.unary("graph.neg", sum), count), sumOf(code, right)};
}

Result<Loss> meanSquaredError(const StepFunction::Output &output, StepFunction &step,
                              GraphCode &code) {
  auto target = step.addInput("target", output.value.getType());
  if (!target.ok())
    return target.status();
  Value x = code.widen(output.value);
  Value error = code.sub(x, code.widen(*target));
  Value square = code.mul(error, error);
  return Loss{square ? code.reshape(code.mean(square, axesOf(square)), {}) : Value(), {}};
}

constexpr std::pair<const char *,
                    Result<Loss> (*)(const StepFunction::Output &, StepFunction &, GraphCode &)>
    kLosses[] = {{"cross_entropy", crossEntropy}, {"mean_squared_error", meanSquaredError}};

} // namespace

bool isBuiltInLoss(const std::string &name) {
  return llvm::any_of(kLosses, [&](auto &loss) { return loss.first == name; });
}

Result<Loss> buildLoss(const std::string &name, const StepFunction::Output &output,
                       StepFunction &step, GraphCode &code) {
  auto type = dyn_cast<RankedTensorType>(output.value.getType());
  if (!type || !isa<FloatType>(type.getElementType()))
    return invalidArgument("the loss " + name + " can't be taken of output '" + output.name +
                           "', which is no tensor of floats of known rank");
  if (llvm::is_contained(step.inputNames(), "target"))
    return invalidArgument("the model has an input 'target', which is the name of what the loss " +
                           name + " compares with; give the model's own loss by its output's name");
  for (auto &[known, build] : kLosses)
    if (name == known) {
      auto loss = build(output, step, code);
      if (loss.ok() && !loss->value)
        return invalidArgument("the loss " + name + " can't be taken of output '" + output.name +
                               "'");
      return loss;
    }
  return invalidArgument("there is no loss '" + name + "'");
}

} // namespace tensmith::training
