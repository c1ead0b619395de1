// Arrays' memory as tensors of the C API, for as long as a run takes.
#include "eager/Compiled.h"

#include <tensmith/tensmith.hpp>

#include <chrono>
#include <optional>

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
  Borrowed &operator=(Borrowed &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Borrowed() { ts_tensor_free(handle_); }
  ts_tensor *handle() const { return handle_; }

private:
  ts_tensor *handle_ = nullptr;
};

/// Handles of one operand of a program's runs. A constant lies where it lay; a state that each run
/// computes anew and moves to its tensor lies at one of two places by turns. So the last two are
/// kept. They say where elements are, and keep nothing of them alive.
class Operand {
public:
  ts_tensor *handle(const Array &array) {
    if (!array.hasForm(form_)) {
      form_ = array.on(nullptr);
      for (Place &place : places_)
        place = {};
    }
    if (places_[0].data != array.data() || !places_[0].borrowed) {
      std::swap(places_[0], places_[1]);
      if (places_[0].data != array.data() || !places_[0].borrowed)
        places_[0] = {array.data(), Borrowed(array)};
    }
    return places_[0].borrowed->handle();
  }

private:
  struct Place {
    const std::byte *data = nullptr;
    std::optional<Borrowed> borrowed;
  };
  Array form_; // without a storage
  Place places_[2];
};

} // namespace

/// Of all operands of one run at a time.
class Compiled::Handles {
public:
  explicit Handles(size_t count) : operands_(count) { handles_.reserve(count); }

  std::span<ts_tensor *> of(std::span<const Array> inputs, std::span<const Array> outputs) {
    handles_.clear();
    for (std::span<const Array> arrays : {inputs, outputs})
      for (const Array &array : arrays)
        handles_.push_back(operands_[handles_.size()].handle(array));
    return handles_;
  }
  size_t count() const { return operands_.size(); }

private:
  std::vector<Operand> operands_;
  std::vector<ts_tensor *> handles_;
};

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
  ts_module *handle = module_->handle();
  for (size_t i = 0; i < ts_module_state_count(handle); ++i)
    if (ts_state state = ts_module_state(handle, i); state.in_place)
      updates_.push_back({state.input, state.output});
}

Compiled::~Compiled() = default;

std::unique_ptr<Compiled::Handles> Compiled::takeHandles(size_t count) const {
  std::lock_guard lock(mutex_);
  if (idle_.empty() || idle_.back()->count() != count)
    return std::make_unique<Handles>(count);
  std::unique_ptr<Handles> handles = std::move(idle_.back());
  idle_.pop_back();
  return handles;
}

Status Compiled::run(std::span<const Array> inputs, std::span<const Array> outputs) const {
  auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<Handles> taken = takeHandles(inputs.size() + outputs.size());
  std::span<ts_tensor *> handles = taken->of(inputs, outputs);
  ts_status *status = ts_session_run(session_->handle(), handles.data(), inputs.size(),
                                     handles.data() + inputs.size(), outputs.size());
  {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(taken));
  }
  nanoseconds_.store((std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1),
                     std::memory_order_relaxed);
  if (!status)
    return {};
  Status failure{StatusCode(ts_status_get_code(status)), ts_status_message(status)};
  ts_status_free(status);
  return failure;
}

} // namespace tensmith::eager
