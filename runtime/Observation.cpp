// Steps and values of a run, looked at; see Observation.h.
#include "runtime/Observation.h"

#include "runtime/Device.h"
#include "runtime/Interpreter.h"
#include "runtime/ModuleFormat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tensmith::runtime {
namespace {

uint8_t specialOf(double value) {
  return std::isnan(value)   ? uint8_t(Special::NaN)
         : std::isinf(value) ? uint8_t(Special::Infinity)
                             : uint8_t(Special::None);
}

bool mayBeSpecial(const Tensor &tensor) {
  return tensor.kind() == TensorKind::Tensor && tensor.type() != DataType::String &&
         tensor.type() != DataType::Undefined && isFloat(tensor.type());
}

uint8_t specialOf(const TensorRef &tensor) {
  uint8_t special = 0;
  if (tensor->kind() == TensorKind::Sequence)
    for (const TensorRef &element : tensor->elements())
      special |= specialOf(element);
  if (!mayBeSpecial(*tensor))
    return special;
  HostTensor values = toHostTensor(tensor);
  for (int64_t i = 0; i < values.size(); ++i)
    special |= specialOf(values.getDouble(i));
  return special;
}

/// The value where it can be looked at.
Result<TensorRef> seen(const Run &run, const Frame &frame, uint32_t value) {
  auto tensor = tensorOf(run, frame, value);
  if (!tensor || !*tensor || !(*tensor)->device())
    return tensor;
  auto copy = Tensor::create((*tensor)->type(), (*tensor)->shape());
  if (copy && (*copy)->bytes())
    waitFor(
        (*tensor)->device()->copyOut(0, (*copy)->data(), (*tensor)->data(), (*copy)->bytes(), {}));
  return copy;
}

/// A value without a tensor (an operand that is not there) holds nothing.
uint8_t lookThrough(const Run &run, const Frame &frame, uint32_t value) {
  auto tensor = seen(run, frame, value);
  return tensor && *tensor ? specialOf(*tensor) : 0;
}

std::string indexText(std::span<const int64_t> shape, int64_t index) {
  std::string text;
  for (size_t dim = shape.size(); dim-- > 0; index /= shape[dim])
    text = std::to_string(index % shape[dim]) + (text.empty() ? "" : ", ") + text;
  return "[" + text + "]";
}

/// "'conv1' is NaN at [0, 3], the first of 5 such elements of f32[2,4]"
std::string describeSpecial(std::string_view name, const TensorRef &tensor, uint8_t made) {
  std::string what = made & uint8_t(Special::NaN) ? "NaN" : "infinite";
  std::string text = "the result '" + std::string(name) + "' is " + what;
  if (!mayBeSpecial(*tensor))
    return text + " in an element";
  HostTensor values = toHostTensor(tensor);
  int64_t first = -1, count = 0;
  for (int64_t i = 0; i < values.size(); ++i)
    if (specialOf(values.getDouble(i)) & made) {
      first = first < 0 ? i : first;
      ++count;
    }
  return text + " at " + indexText(values.shape(), first) + ", the first of " +
         std::to_string(count) + " such elements of " + describe(*tensor);
}

} // namespace

void noteOperands(const Run &run, Frame &frame, const Step &step) {
  frame.special.resize(frame.code.values.size(), uint8_t(Special::Unknown));
  for (uint32_t value : step.operands)
    if (value != kAbsent && frame.special[value] == uint8_t(Special::Unknown))
      frame.special[value] = lookThrough(run, frame, value);
}

Status checkFinite(const Run &run, Frame &frame, const Step &step) {
  uint8_t given = 0;
  for (uint32_t value : step.operands)
    given |= value == kAbsent ? 0 : frame.special[value];
  for (uint32_t value : step.results) {
    uint8_t found = frame.special[value] = lookThrough(run, frame, value);
    uint8_t made = found & uint8_t(~given);
    if (!made)
      continue;
    auto tensor = seen(run, frame, value);
    return invalidArgument(describeSpecial(frame.code.values[value].name, *tensor, made) +
                           ", and no operand holds one");
  }
  return {};
}

Status observeResults(const Run &run, const Frame &frame, const Step &step) {
  std::string_view location = run.session.module().location(step.location);
  for (uint32_t value : step.results) {
    auto tensor = seen(run, frame, value);
    if (!tensor)
      return tensor.status();
    if (*tensor)
      (*run.watch.observe)(frame.code.values[value].name, location, *tensor);
  }
  return {};
}

Status tellWritten(Run &run, const Frame &frame, const Step &step) {
  for (size_t i = 0; i < run.destinations.size(); ++i) {
    uint32_t value = frame.code.results[i];
    Tensor *to = run.destinations[i];
    if (!to || run.told[i] || std::ranges::find(step.results, value) == step.results.end())
      continue;
    auto tensor = tensorOf(run, frame, value);
    if (!tensor)
      return tensor.status();
    if ((*tensor)->type() != to->type() || (*tensor)->shape() != to->shape())
      continue; // refused when the run ends
    copyWithin(to->device(), to->data(), (*tensor)->data(), to->bytes());
    run.told[i] = true;
    (*run.watch.written)(i);
  }
  return {};
}

} // namespace tensmith::runtime
