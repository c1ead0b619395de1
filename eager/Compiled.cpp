// Arrays' memory as tensors of the C API, for as long as a run takes.
#include "eager/Compiled.h"

#include <tensmith/tensmith.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace tensmith::eager {
namespace {

/// Where a program has an array, which lies on the program's device, or the host (null).
std::byte *addressOf(const Array &array, const Device *device, bool isWritten) {
  if (!device)
    return isWritten ? array.data() : const_cast<std::byte *>(array.elements());
  DeviceMemory *memory = array.storage()->onDevice.get();
  if (!memory)
    return nullptr; // it has no element
  int64_t bytes = array.size() * byteSize(array.type());
  if (!isWritten || bytes < array.storage()->bytes)
    memory->readOnDevice();
  if (isWritten)
    memory->writeOnDevice();
  return memory->address() + array.offset() * byteSize(array.type());
}

class Borrowed {
public:
  Borrowed(const Array &array, const Device *device, void *data) {
    ts_status_free(ts_tensor_borrow_on(device ? device->name.c_str() : nullptr,
                                       ts_type(array.type()), array.shape().data(),
                                       array.shape().size(), data, nullptr, nullptr, &handle_));
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
  ts_tensor *handle(const Array &array, const Device *device, bool isWritten) {
    if (!array.hasForm(form_)) {
      form_ = array.on(nullptr);
      for (Place &place : places_)
        place = {};
    }
    std::byte *data = addressOf(array, device, isWritten);
    if (places_[0].data != data || !places_[0].borrowed) {
      std::swap(places_[0], places_[1]);
      if (places_[0].data != data || !places_[0].borrowed)
        places_[0] = {data, Borrowed(array, device, data)};
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

  std::span<ts_tensor *> of(std::span<const Array> inputs, std::span<const Array> outputs,
                            const Device *device) {
    handles_.clear();
    for (const Array &input : inputs)
      handles_.push_back(operands_[handles_.size()].handle(input, device, /*isWritten=*/false));
    for (const Array &output : outputs)
      handles_.push_back(operands_[handles_.size()].handle(output, device, /*isWritten=*/true));
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

Compiled::Compiled(Module module, const Device *device)
    : Compiled(std::make_shared<const Module>(std::move(module)), nullptr, device) {}

Compiled::Compiled(std::shared_ptr<const Module> module, std::shared_ptr<const SharedArenas> memory,
                   const Device *device)
    : module_(std::move(module)), device_(device), memory_(std::move(memory)) {
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

Result<std::shared_ptr<const Compiled>> Compiled::on(const Device &device, MakeOn make) const {
  auto found = elsewhere_.find(&device);
  if (found != elsewhere_.end())
    return found->second;
  if (!make || source.empty())
    return unsupported("a program of the host's can't be run on " + device.name);
  auto made = make(*this, device);
  if (!made.ok())
    return made.status();
  return elsewhere_.emplace(&device, std::move(*made)).first->second;
}

Status Compiled::run(std::span<const Array> inputs, std::span<const Array> outputs) const {
  auto isHere = [&](const Array &array) { return array.device() == device_; };
  if (std::ranges::all_of(inputs, isHere) && std::ranges::all_of(outputs, isHere)) [[likely]]
    return call(inputs, outputs);
  std::vector<Array> taken, given;
  for (const Array &input : inputs) {
    Result<Array> here = eager::on(device_, input);
    if (!here.ok())
      return here.status();
    taken.push_back(std::move(*here));
  }
  for (const Array &output : outputs) {
    Result<Array> here = isHere(output) ? Result<Array>(output)
                                        : Array::allocate(output.type(), output.shape(), device_);
    if (!here.ok())
      return here.status();
    given.push_back(std::move(*here));
  }
  if (Status status = call(taken, given); !status.ok())
    return status;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!isHere(outputs[i]))
      if (Status status = copyElements(outputs[i], given[i]); !status.ok())
        return status;
  return {};
}

Status Compiled::call(std::span<const Array> inputs, std::span<const Array> outputs) const {
  auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<Handles> taken = takeHandles(inputs.size() + outputs.size());
  std::span<ts_tensor *> handles = taken->of(inputs, outputs, device_);
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
