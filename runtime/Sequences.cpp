// The operators on sequences, maps and optional values, over the runtime's references to tensors;
// what they do is in reference/Sequences.h.
#include "reference/Sequences.h"

#include "runtime/Interpreter.h"

#include <algorithm>

namespace tensmith::runtime {
namespace {

using reference::ValueKind;

struct TensorAccess {
  using Value = TensorRef;

  static ValueKind kind(const TensorRef &value) {
    if (!value || value->kind() == TensorKind::None)
      return ValueKind::None;
    return value->kind() == TensorKind::Tensor ? ValueKind::Tensor
           : value->kind() == TensorKind::Map  ? ValueKind::Map
                                               : ValueKind::Sequence;
  }
  static HostTensor tensor(const TensorRef &value) { return toHostTensor(value); }
  static std::span<const TensorRef> elements(const TensorRef &value) { return value->elements(); }
  static Result<TensorRef> ofTensor(HostTensor tensor) { return fromHostTensor(std::move(tensor)); }
  static TensorRef ofElements(std::vector<TensorRef> elements) {
    return Tensor::sequence(std::move(elements));
  }
  static TensorRef ofMap(TensorRef keys, TensorRef values) {
    return Tensor::map(std::move(keys), std::move(values));
  }
  static TensorRef none() { return Tensor::none(); }
};

} // namespace

Result<TensorRef> makeMap(TensorRef keys, TensorRef values) {
  if (keys->kind() != TensorKind::Tensor || values->kind() != TensorKind::Tensor)
    return invalidArgument("a map's keys and values are two tensors");
  if (values->shape().size() != 1 || values->size() != keys->size())
    return invalidArgument("a map's values are a vector of as many as its keys, not " +
                           describe(*values) + " for " + describe(*keys));
  HostTensor given = toHostTensor(keys);
  auto order = reference::entryOrder(given);
  if (!order)
    return order.status();
  if (int64_t(order->size()) != keys->size())
    return invalidArgument("a map's keys are given with one of them twice");
  if (std::is_sorted(order->begin(), order->end()))
    return Tensor::map(std::move(keys), std::move(values));
  auto orderedKeys = reference::entriesOf(given, *order);
  auto orderedValues = reference::entriesOf(toHostTensor(values), *order);
  if (!orderedKeys || !orderedValues)
    return orderedKeys ? orderedValues.status() : orderedKeys.status();
  auto first = fromHostTensor(std::move(*orderedKeys));
  auto second = fromHostTensor(std::move(*orderedValues));
  if (!first || !second)
    return first ? second.status() : first.status();
  return Tensor::map(std::move(*first), std::move(*second));
}

SequenceEvaluator findSequenceOperator(std::string_view name) {
  return reference::SequenceOperators<TensorAccess>::find(name);
}

} // namespace tensmith::runtime
