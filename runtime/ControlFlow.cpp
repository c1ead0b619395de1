// If and Loop: functions called with the values that they capture.
//
// The loop is ONNX's: at most `trip count` iterations, while the condition holds. The body takes
// (iteration, condition, carried..., captured...) and gives (condition, carried..., scanned...);
// what is scanned is stacked along a new first dimension.
#include "runtime/Device.h"
#include "runtime/SteadyLoop.h"

#include <cstring>

namespace tensmith::runtime {
namespace {

Result<int64_t> scalarOf(const TensorRef &tensor, const char *what) {
  bool scalar = tensor->kind() == TensorKind::Tensor && tensor->size() == 1 && !tensor->device() &&
                (isInteger(tensor->type()) || tensor->type() == DataType::Bool);
  if (!scalar)
    return invalidArgument(std::string("the ") + what + " should be one integer or boolean, not " +
                           describe(*tensor));
  return toHostTensor(tensor).getInt(0);
}

Result<std::vector<Passed>> passedOperands(Run &run, Frame &frame, const Step &step, size_t first) {
  std::vector<Passed> passed;
  for (size_t i = first; i < step.operands.size(); ++i) {
    auto operand = operandOf(run, frame, step, i);
    if (!operand)
      return operand.status();
    passed.push_back({std::move(*operand), false});
  }
  return passed;
}

Result<std::vector<int64_t>> givenSymbols(const Frame &frame, const Step &step) {
  std::vector<int64_t> given;
  for (uint32_t size : step.sizes) {
    given.push_back(frame.exprs[size]);
    if (given.back() == kPoison)
      return noSize(frame, size);
  }
  return given;
}

template <typename T> Result<TensorRef> scalar(DataType type, T value) {
  auto tensor = Tensor::create(type, {});
  if (tensor)
    std::memcpy((*tensor)->data(), &value, sizeof(T));
  return tensor;
}

/// An absent operand, or one that is none, stands for `otherwise`.
Result<int64_t> optionalScalar(Run &run, Frame &frame, const Step &step, size_t index,
                               int64_t otherwise, const char *what) {
  auto operand = operandOf(run, frame, step, index);
  if (!operand)
    return operand.status();
  if (!*operand || (*operand)->kind() == TensorKind::None)
    return otherwise;
  return scalarOf(*operand, what);
}

/// The shape of one element of a scanned result of a loop that never ran: sizes that only the body
/// would have told are 0.
Shape unscannedShape(const Frame &frame, const Step &step, const ValueCode &value) {
  int32_t time = int32_t(&step - frame.code.steps.data());
  Shape shape;
  for (size_t i = 1; i < value.dims.size(); ++i) {
    bool known = frame.code.times.exprs[value.dims[i]] < time && frame.dim(value, i) >= 0;
    shape.push_back(known ? frame.dim(value, i) : 0);
  }
  return shape;
}

/// One iteration.
Status iterate(Run &run, Frame &body, const Step &step, std::span<const int64_t> given,
               LoopState &state) {
  auto number = scalar(DataType::I64, state.iteration);
  auto condition = scalar(DataType::Bool, uint8_t(1));
  if (!number || !condition)
    return number ? condition.status() : number.status();
  state.arguments[0] = {std::move(*number), true};
  state.arguments[1] = {std::move(*condition), true};
  auto results = execute(run, body, step.functions[0], state.arguments, given, {});
  if (!results)
    return results.status();
  for (size_t i = 0; i < step.carried; ++i)
    state.arguments[2 + i] = std::move((*results)[1 + i]);
  for (size_t i = 0; i < state.scanned.size(); ++i)
    state.scanned[i].push_back(std::move((*results)[1 + step.carried + i].tensor));
  auto holds = scalarOf((*results)[0].tensor, "loop's condition");
  if (!holds)
    return holds.status();
  state.holds = *holds != 0;
  ++state.iteration;
  return {};
}

Status finishLoop(const Run &run, Frame &frame, const Step &step, LoopState &state) {
  std::vector<Passed> results;
  for (size_t i = 0; i < step.carried; ++i) {
    Passed &carried = state.arguments[2 + i];
    if (!carried.tensor->ownsMemory()) { // the loop never ran, and the value lies in an arena
      auto copy = carried.tensor->copy();
      if (!copy)
        return copy.status();
      carried = {std::move(*copy), true};
    }
    results.push_back(std::move(carried));
  }
  for (size_t i = 0; i < state.scanned.size(); ++i) {
    const ValueCode &value = frame.code.values[step.results[step.carried + i]];
    auto stacked = i < state.stacked.size()
                       ? Result<TensorRef>(state.stacked[i])
                       : stack(state.scanned[i], value.type, unscannedShape(frame, step, value),
                               run.session.memoryOf(value));
    if (!stacked)
      return stacked.status();
    results.push_back({std::move(*stacked), true});
  }
  return storeResults(run, frame, step, results);
}

} // namespace

Result<TensorRef> stack(std::span<const TensorRef> elements, DataType type,
                        std::span<const int64_t> shape, Device *device) {
  Shape whole = {int64_t(elements.size())};
  for (const TensorRef &element : elements)
    if (element->kind() != TensorKind::Tensor || element->type() != elements[0]->type() ||
        element->shape() != elements[0]->shape())
      return invalidArgument("tensors " + describe(*elements[0]) + " and " + describe(*element) +
                             " can't be stacked");
  if (!elements.empty()) {
    type = elements[0]->type();
    shape = elements[0]->shape();
  }
  whole.insert(whole.end(), shape.begin(), shape.end());
  if (type == DataType::String) {
    std::vector<std::string> strings;
    for (const TensorRef &element : elements)
      strings.insert(strings.end(), element->strings().begin(), element->strings().end());
    return Tensor::ofStrings(std::move(strings), whole);
  }
  auto result = Tensor::create(type, whole, device);
  if (!result)
    return result;
  std::byte *target = (*result)->data();
  for (const TensorRef &element : elements) {
    if (element->bytes() && device)
      waitFor(device->copyWithin(0, target, element->data(), element->bytes(), {}));
    else if (element->bytes())
      std::memcpy(target, element->data(), size_t(element->bytes()));
    target += element->bytes();
  }
  return result;
}

Status executeIf(Run &run, Frame &frame, const Step &step) {
  auto operand = operandOf(run, frame, step, 0);
  auto given = givenSymbols(frame, step);
  auto passed = passedOperands(run, frame, step, 1);
  if (!operand || !given || !passed)
    return !operand ? operand.status() : !given ? given.status() : passed.status();
  auto condition = scalarOf(*operand, "condition");
  if (!condition)
    return condition.status();
  uint32_t function = step.functions[*condition ? 0 : 1];
  Session::Lease branch(run.session, function);
  auto results = execute(run, *branch, function, *passed, *given, {});
  if (!results)
    return results.status();
  return storeResults(run, frame, step, *results);
}

Status executeLoop(Run &run, Frame &frame, const Step &step) {
  auto count = optionalScalar(run, frame, step, 0, INT64_MAX, "loop's trip count");
  auto condition = optionalScalar(run, frame, step, 1, 1, "loop's condition");
  auto given = givenSymbols(frame, step);
  if (!count || !condition || !given)
    return !count ? count.status() : !condition ? condition.status() : given.status();
  auto passed = passedOperands(run, frame, step, 0);
  if (!passed)
    return passed.status();
  LoopState state;
  state.arguments = std::move(*passed);
  state.scanned.resize(step.results.size() - step.carried);
  state.holds = *condition != 0;
  Session::Lease body(run.session, step.functions[0]);
  while (state.iteration < *count && state.holds) {
    bool steady = state.iteration == 1 && isSteady(run, *body, state);
    Status status = steady ? finishSteadily(run, *body, step, *count, state) : checkTime();
    if (status.ok() && !steady)
      status = iterate(run, *body, step, *given, state);
    if (!status.ok())
      return status;
  }
  return finishLoop(run, frame, step, state);
}

} // namespace tensmith::runtime
