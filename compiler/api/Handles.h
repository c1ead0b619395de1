// The C API's handles, held; values of the evaluator as its tensors, and the other way round.
#pragma once

#include "compiler/graph/Evaluate.h"

#include <tensmith/tensmith.h>

#include <memory>

namespace tensmith {

template <typename Handle, void (*free)(Handle *)> struct Freed {
  void operator()(Handle *handle) const { free(handle); }
};
using ModuleHandle = std::unique_ptr<ts_module, Freed<ts_module, ts_module_free>>;
using SessionHandle = std::unique_ptr<ts_session, Freed<ts_session, ts_session_free>>;
using TensorHandle = std::unique_ptr<ts_tensor, Freed<ts_tensor, ts_tensor_free>>;

/// A module of these bytes, in a session on all threads.
struct LoadedModule {
  ModuleHandle module;
  SessionHandle session;
};
Result<LoadedModule> loadModule(const std::string &bytes);

/// A view of the handle's memory; strings are copied.
Result<graph::RuntimeValue> fromHandle(const ts_tensor *tensor);
Result<std::vector<graph::RuntimeValue>> fromHandles(ts_tensor *const *tensors, size_t count);
/// A tensor of its own memory.
ts_status *toHandle(const graph::RuntimeValue &value, ts_tensor **out);

} // namespace tensmith
