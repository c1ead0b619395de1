// Frames, their pools, and one run from the caller's tensors to the caller's tensors.
#include "runtime/Session.h"

#include "base/Budget.h"
#include "base/RunKey.h"
#include "runtime/Device.h"
#include "runtime/Interpreter.h"
#include "runtime/Launches.h"
#include "runtime/States.h"

namespace tensmith::runtime {
namespace {

/// A loop's body, with the times of its parts.
struct TracedBody {
  const KernelContext &context;
  TensmithBody body;
  void *closure;

  static void run(void *self, int64_t begin, int64_t end) {
    auto &[context, body, closure] = *static_cast<TracedBody *>(self);
    int64_t start = context.trace->now();
    body(closure, begin, end);
    context.trace->add(context.function, context.step, start, begin, end);
  }
};

void parallelFor(const TensmithCall *call, int64_t count, int64_t grain, TensmithBody body,
                 void *closure) {
  auto *context = static_cast<KernelContext *>(call->context);
  TracedBody traced{*context, body, closure};
  if (context->trace) [[unlikely]] {
    body = TracedBody::run;
    closure = &traced;
  }
  context->pool->parallelFor(count, grain, body, closure, context->scratch);
}

void *scratch(const TensmithCall *call, int64_t bytes) {
  auto *context = static_cast<KernelContext *>(call->context);
  ResourceScope resources({context->budget});
  return context->pool->scratch(context->scratch).take(bytes);
}

int32_t fail(const TensmithCall *call, int32_t code, int64_t detail) {
  auto *context = static_cast<KernelContext *>(call->context);
  if (!context->failed.exchange(true)) {
    context->code = code;
    context->detail = detail;
  }
  return 1;
}

int32_t poll(const TensmithCall *call) {
  auto *context = static_cast<KernelContext *>(call->context);
  if (context->failed.load(std::memory_order_relaxed))
    return 1;
  bool isLate = context->deadline != Clock::time_point::max() && Clock::now() > context->deadline;
  return checkTime().ok() && !isLate ? 0 : fail(call, TENSMITH_FAIL_NO_TIME, 0);
}

constexpr TensmithServices kServices = {parallelFor, scratch, fail, poll};

std::string outputName(const Module &module, size_t index) {
  return "output '" + module.plan().outputs()->Get(uint32_t(index))->name()->str() + "'";
}

/// What can be said of the caller's tensor before the run; its shape is checked when it is written.
Status checkDestination(const Session &session, size_t index, const Tensor &tensor) {
  const Module &module = session.module();
  const FunctionCode &main = module.program().functions[0];
  const ValueCode &value = main.values[main.results[index]];
  const Device *memory = session.memoryOf(value);
  bool fits = tensor.kind() == TensorKind::Tensor && tensor.type() != DataType::String &&
              (value.kind == plan::ValueKind::Tensor || value.kind == plan::ValueKind::Optional) &&
              (value.type == DataType::Undefined || value.type == tensor.type()) &&
              (!value.ranked || value.kind != plan::ValueKind::Tensor ||
               value.dims.size() == tensor.shape().size());
  if (fits && tensor.device() != memory)
    return invalidArgument(outputName(module, index) + ": it is made in the memory of " +
                           (memory ? "the device '" + nameOf(*memory) + "'" : "the host") +
                           ", and the tensor lies in another one");
  return fits ? Status()
              : invalidArgument(outputName(module, index) + ": it is " + declaredType(main, value) +
                                " and can't be written into " + describe(tensor));
}

/// Where nothing asks for it, no number is made.
uint64_t keyOf(const Module &module, std::optional<uint64_t> seed) {
  return seed ? *seed : module.program().readsRunKey ? freshRunKey() : 0;
}

} // namespace

Frame::Frame(const FunctionCode &code, ThreadPool &pool, std::shared_ptr<Budget> budget)
    : code(code) {
  context.pool = &pool;
  context.budget = std::move(budget);
  symbols.resize(code.symbolCount, kPoison);
  exprs.resize(code.exprs.size(), kPoison);
  slots.resize(code.values.size());
  pointers.resize(code.pointerCount);
  sizes.resize(code.sizeCount);
  calls.resize(code.callCount);
  for (const Step &step : code.steps)
    if (step.opcode == plan::Opcode::Kernel)
      calls[step.call] = {pointers.data() + step.firstPointer, sizes.data() + step.firstSize,
                          &kServices, &context};
}

Frame::~Frame() = default;

void Frame::shape(const ValueCode &value, Shape &shape) const {
  shape.resize(value.dims.size());
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = dim(value, i);
}

Status noSize(const Frame &frame, uint32_t expr) {
  return invalidArgument("the size " + expressionText(*frame.code.plan, expr) +
                         " overflows or divides by zero");
}

Status checkShape(const Frame &frame, const ValueCode &value, int32_t time) {
  for (uint32_t dim : value.dims)
    if (frame.code.times.exprs[dim] < time && frame.exprs[dim] == kPoison)
      return noSize(frame, dim).within(named(value));
  return {};
}

void Frame::clear() {
  if (launches) // first: what is under way uses the values
    launches->begin();
  for (uint32_t value : code.transient) {
    slots[value].tensor = {};
    slots[value].destination = nullptr;
  }
  context.failed = false;
  context.trace = nullptr;
}

Session::Session(std::shared_ptr<const Module> module, int threads, Limits limits,
                 std::optional<uint64_t> seed, std::shared_ptr<MemoryPool> arenas)
    : module_(std::move(module)), pool_(threads), limits_(limits), seed_(seed),
      budget_(std::make_shared<Budget>(limits.memoryBytes)), arenas_(std::move(arenas)),
      frames_(module_->program().functions.size()) {
  if (const auto *devices = module_->plan().devices(); devices && devices->size())
    status_ = openDevices();
}

Status Session::openDevices() {
  for (const auto *name : *module_->plan().devices()) {
    Device *device = openDevice(name->str());
    if (!device)
      return unsupported("the module is for the device '" + name->str() +
                         "', which is not there, or whose library is not beside the runtime's");
    devices_.push_back({device});
  }
  for (size_t number = 1; number <= devices_.size(); ++number)
    if (Status status = copyWeights(uint8_t(number)); !status.ok())
      return status;
  return {};
}

/// Those that something in its memory is, as one piece.
Status Session::copyWeights(uint8_t number) {
  int64_t begin = INT64_MAX, end = 0;
  auto add = [&](int64_t offset, int64_t bytes) {
    begin = std::min(begin, offset);
    end = std::max(end, offset + std::max<int64_t>(bytes, 1)); // what has no element has a place
  };
  for (const FunctionCode &code : module_->program().functions)
    for (const ValueCode &value : code.values) {
      if (value.storage != plan::Storage::Constant || value.device != number)
        continue;
      int64_t bytes = byteSize(value.type);
      for (uint32_t dim : value.dims)
        bytes *= code.exprs[dim].a();
      add(int64_t(value.offset), bytes);
    }
  const auto *constants = module_->plan().constants();
  if (number == 1 && constants && constants->size()) // of procedures
    add(0, int64_t(module_->weights().size()));
  if (begin >= end)
    return {};
  int64_t bytes = std::min(end, int64_t(module_->weights().size())) - begin;
  OpenedDevice &opened = devices_[number - 1u];
  opened.weights = allocateOn(*opened.device, end - begin);
  if (!opened.weights)
    return {StatusCode::ResourceExhausted, "the device '" +
                                               module_->plan().devices()->Get(number - 1u)->str() +
                                               "' has no memory for the weights"};
  if (bytes > 0)
    waitFor(opened.device->copyIn(0, opened.weights.get(), module_->weights().data() + begin, bytes,
                                  {}));
  opened.weightsBegin = opened.weights.get() - begin;
  return {};
}

std::unique_ptr<Frame> Session::makeFrame(uint32_t function) {
  auto frame = std::make_unique<Frame>(module_->program().functions[function], pool_, budget_);
  frame->deviceArenas.resize(devices_.size());
  if (frame->code.hasStreams)
    frame->launches = std::make_unique<Launches>(*this, *frame);
  return frame;
}

Session::Lease::Lease(Session &session, uint32_t function)
    : session_(session), function_(function) {
  FramePool &pool = session.frames_[function];
  {
    std::lock_guard lock(pool.mutex);
    if (!pool.idle.empty()) {
      frame_ = std::move(pool.idle.back());
      pool.idle.pop_back();
      session_.kept_ -= frame_->arena.size();
    }
  }
  if (!frame_)
    frame_ = session.makeFrame(function);
  takeArena();
}

/// Addresses hold where the pool's block is the one that the frame had.
void Session::Lease::takeArena() {
  if (!session_.arenas_ || !frame_->code.hasArena)
    return;
  frame_->arena = session_.arenas_->take();
  if (frame_->arena.data() != frame_->placedAt || frame_->arena.size() != frame_->placedBytes)
    frame_->resolved = false;
}

Session::Lease::~Lease() {
  frame_->clear();
  if (session_.arenas_) {
    frame_->placedAt = frame_->arena.data();
    frame_->placedBytes = frame_->arena.size();
    session_.arenas_->give(std::move(frame_->arena));
  }
  int64_t bytes = frame_->arena.size();
  if ((session_.kept_ += bytes) > session_.limits_.keepBytes) {
    session_.kept_ -= bytes;
    frame_->arena.release();
    frame_->resolved = false; // addresses are of the arena that went
    bytes = 0;
  }
  FramePool &pool = session_.frames_[function_];
  std::lock_guard lock(pool.mutex);
  try {
    pool.idle.push_back(std::move(frame_));
  } catch (const std::bad_alloc &) { // the frame goes, and the next run makes another
    session_.kept_ -= bytes;
  }
}

Session::MachineSpace Session::takeSpace() {
  {
    std::lock_guard lock(spacesMutex_);
    if (!idleSpaces_.empty()) {
      MachineSpace space = std::move(idleSpaces_.back());
      idleSpaces_.pop_back();
      return space;
    }
  }
  MachineSpace space;
  space.frames.resize(module().program().functions.size());
  return space;
}

void Session::giveBack(MachineSpace space) {
  for (auto &frame : space.frames)
    if (frame)
      frame->clear();
  std::lock_guard lock(spacesMutex_);
  try {
    idleSpaces_.push_back(std::move(space));
  } catch (const std::bad_alloc &) { // it goes, and the next run makes another
  }
}

Status Session::run(std::span<const TensorRef> inputs, std::span<TensorRef> outputs,
                    Profile *profile, const Watch &watch, std::optional<uint64_t> seed) {
  if (!status_.ok())
    return status_;
  const FunctionCode &main = module_->program().functions[0];
  if (inputs.size() != main.params.size() || outputs.size() != main.results.size())
    return invalidArgument("the module takes " + std::to_string(main.params.size()) +
                           " inputs and gives " + std::to_string(main.results.size()) +
                           " outputs; the call has " + std::to_string(inputs.size()) + " and " +
                           std::to_string(outputs.size()));
  std::vector<Passed> arguments;
  arguments.reserve(inputs.size());
  for (const TensorRef &input : inputs)
    arguments.push_back({input, false});
  std::vector<Tensor *> destinations(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i])
      continue;
    if (Status status = checkDestination(*this, i, *outputs[i]); !status.ok())
      return status;
    destinations[i] = outputs[i].get();
  }
  // An output that shares memory with another tensor of the call must not be written before the
  // others were read: it gets memory of its own, and is copied at the end.
  std::vector<Tensor *> direct = directDestinations(*module_, inputs, destinations);

  ResourceScope resources({budget_, deadlineIn(limits_.seconds)});
  Lease frame(*this, 0);
  ThreadPool::Attendance attendance(pool_);
  Run run{*this, profile, watch, keyOf(*module_, seed ? seed : seed_)};
  auto results = execute(run, *frame, 0, arguments, {}, direct);
  if (!results)
    return results.status();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor *tensor = (*results)[i].tensor.get();
    if (!destinations[i] || tensor == destinations[i])
      continue;
    if (tensor->type() != destinations[i]->type() || tensor->shape() != destinations[i]->shape())
      return invalidArgument(outputName(*module_, i) + ": it is " + describe(*tensor) +
                             " and can't be written into " + describe(*destinations[i]));
    copyWithin(tensor->device(), destinations[i]->data(), tensor->data(), tensor->bytes());
  }
  for (size_t i = 0; watch.written && i < outputs.size(); ++i)
    if (destinations[i] && !run.told[i])
      (*watch.written)(i);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!destinations[i])
      outputs[i] = std::move((*results)[i].tensor);
  return {};
}

} // namespace tensmith::runtime
