// Making, reading, writing and ending references; see References.h.
#include "runtime/References.h"

namespace tensmith::runtime {

References::~References() {
  for (TensorRef &reference : all_)
    TensorRef let = reference->endReference();
}

TensorRef References::make(TensorRef value) {
  TensorRef reference = Tensor::unfilled(TensorKind::Reference, 0, 1);
  if (!reference)
    return reference;
  reference->fill()[0] = std::move(value);
  std::lock_guard guard(lock_);
  all_.push_back(reference);
  return reference;
}

TensorRef References::read(Tensor &reference) {
  std::lock_guard guard(lock_);
  return reference.fill()[0];
}

TensorRef References::write(Tensor &reference, TensorRef value) {
  std::lock_guard guard(lock_);
  std::swap(reference.fill()[0], value);
  return value;
}

} // namespace tensmith::runtime
