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

SharedArenas::SharedArenas() : pool(std::make_unique<MemoryPool>()) {}
SharedArenas::~SharedArenas() = default;
int64_t SharedArenas::bytes() const { return pool->bytes(); }

Compiled::Compiled(Module module)
    : Compiled(std::make_shared<const Module>(std::move(module)), nullptr) {}

Compiled::Compiled(std::shared_ptr<const Module> module, std::shared_ptr<const SharedArenas> memory)
    : module_(std::move(module)), memory_(std::move(memory)) {
  SessionOptions options;
  options.memoryPool = memory_ ? memory_->pool.get() : nullptr;
  session_ = std::make_unique<Session>(*module_, options);
}

Compiled::~Compiled() = default;

Status Compiled::run(std::span<const Array> inputs, std::span<const Array> outputs) const {
  std::vector<Borrowed> borrowed;
  std::vector<ts_tensor *> handles;
  borrowed.reserve(inputs.size() + outputs.size());
  for (std::span<const Array> arrays : {inputs, outputs})
    for (const Array &array : arrays)
      handles.push_back(borrowed.emplace_back(array).handle());
  ts_status *status = ts_session_run(session_->handle(), handles.data(), inputs.size(),
                                     handles.data() + inputs.size(), outputs.size());
  if (!status)
    return {};
  Status failure{StatusCode(ts_status_get_code(status)), ts_status_message(status)};
  ts_status_free(status);
  return failure;
}

} // namespace tensmith::eager
