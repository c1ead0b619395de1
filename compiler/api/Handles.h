// Values of the evaluator as the C API's tensors, and the other way round.
#pragma once

#include "compiler/graph/Evaluate.h"

#include <tensmith/tensmith.h>

#include <memory>

namespace tensmith {

struct FreeTensor {
  void operator()(ts_tensor *tensor) const { ts_tensor_free(tensor); }
};
using TensorHandle = std::unique_ptr<ts_tensor, FreeTensor>;

/// A view of the handle's memory; strings are copied.
Result<graph::RuntimeValue> fromHandle(const ts_tensor *tensor);
Result<std::vector<graph::RuntimeValue>> fromHandles(ts_tensor *const *tensors, size_t count);
/// A tensor of its own memory.
ts_status *toHandle(const graph::RuntimeValue &value, ts_tensor **out);

} // namespace tensmith
