// The operators on sequences and optional values, over the runtime's references to tensors; what
// they do is in reference/Sequences.h.
#include "reference/Sequences.h"

#include "runtime/Interpreter.h"

namespace tensmith::runtime {
namespace {

using reference::ValueKind;

struct TensorAccess {
  using Value = TensorRef;

  static ValueKind kind(const TensorRef &value) {
    if (!value || value->kind() == TensorKind::None)
      return ValueKind::None;
    return value->kind() == TensorKind::Tensor ? ValueKind::Tensor : ValueKind::Sequence;
  }
  static HostTensor tensor(const TensorRef &value) { return toHostTensor(value); }
  static std::span<const TensorRef> elements(const TensorRef &value) { return value->elements(); }
  static Result<TensorRef> ofTensor(HostTensor tensor) { return fromHostTensor(std::move(tensor)); }
  static TensorRef ofElements(std::vector<TensorRef> elements) {
    return Tensor::sequence(std::move(elements));
  }
  static TensorRef none() { return Tensor::none(); }
};

} // namespace

SequenceEvaluator findSequenceOperator(std::string_view name) {
  return reference::SequenceOperators<TensorAccess>::find(name);
}

} // namespace tensmith::runtime
