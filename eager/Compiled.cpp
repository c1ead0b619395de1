// Arrays' memory as tensors of the C API, for as long as a run takes.
#include "eager/Compiled.h"

#include <tensmith/tensmith.hpp>

namespace tensmith::eager {
namespace {

class Borrowed {
public:
  explicit Borrowed(const Array &array) {
    ts_status_free(ts_tensor_borrow(ts_type(array.type()), array.shape().data(),
                                    array.shape().size(), array.data(), nullptr, nullptr,
                                    &handle_));
  }
  Borrowed(Borrowed &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Borrowed() { ts_tensor_free(handle_); }
  ts_tensor *handle() const { return handle_; }

private:
  ts_tensor *handle_ = nullptr;
};

} // namespace

Compiled::Compiled(ts_module *module) {
  detail::check(ts_session_create(module, nullptr, &session_));
}

Status Compiled::run(std::span<const Array> inputs, std::span<const Array> outputs) const {
  std::vector<Borrowed> borrowed;
  std::vector<ts_tensor *> handles;
  borrowed.reserve(inputs.size() + outputs.size());
  for (std::span<const Array> arrays : {inputs, outputs})
    for (const Array &array : arrays)
      handles.push_back(borrowed.emplace_back(array).handle());
  ts_status *status = ts_session_run(session_, handles.data(), inputs.size(),
                                     handles.data() + inputs.size(), outputs.size());
  if (!status)
    return {};
  Status failure{StatusCode(ts_status_get_code(status)), ts_status_message(status)};
  ts_status_free(status);
  return failure;
}

} // namespace tensmith::eager
