// The loop over a function's steps, and the steps that are neither control flow nor routines.
//
// A kernel whose addresses and sizes are known beforehand costs a test and a call. The others first
// learn their sizes and get memory for their results.
#include "runtime/Interpreter.h"

#include "base/Budget.h"
#include "base/SizeText.h"
#include "runtime/Launches.h"
#include "runtime/ModuleFormat.h"
#include "runtime/Observation.h"

#include <algorithm>
#include <bit>
#include <chrono>

namespace tensmith::runtime {
namespace {

Status located(const Run &run, const Step &step, const Status &status) {
  return located(run.session.module(), step, status);
}

/// Why it failed: for want of a result's size, where one can't be computed, and what it says itself
/// otherwise.
Status explained(const Frame &frame, const Step &step, Status status) {
  int32_t time = int32_t(&step - frame.code.steps.data());
  for (uint32_t index : step.results)
    if (Status size = checkShape(frame, frame.code.values[index], time); !size.ok())
      return size;
  return status;
}

Status kernelFailure(const Module &module, const Step &step, const KernelContext &context) {
  if (!context.failed)
    return {StatusCode::Internal, "the kernel failed without saying why"};
  if (context.code == TENSMITH_FAIL_NO_MEMORY)
    return {StatusCode::ResourceExhausted,
            "there is not enough memory for the kernel's scratch, or the session's limit does not "
            "allow it"};
  if (context.code == TENSMITH_FAIL_NO_TIME)
    return outOfTime();
  if (context.code == TENSMITH_FAIL_OUTSIDE)
    return {StatusCode::Internal, "its code would have read or written outside of operand " +
                                      std::to_string(context.detail) +
                                      ", which is a fault of the compiler"};
  const plan::Kernel *kernel = module.plan().kernels()->Get(step.target);
  std::string detail = std::to_string(context.detail);
  if (!kernel->messages() || uint32_t(context.code) >= kernel->messages()->size())
    return invalidArgument("the kernel failed with code " + std::to_string(context.code) + " (" +
                           detail + ")");
  std::string message = kernel->messages()->Get(uint32_t(context.code))->str();
  if (size_t place = message.find("{}"); place != std::string::npos)
    message.replace(place, 2, detail);
  return invalidArgument(std::move(message));
}

Status allocateResult(const Run &run, Frame &frame, uint32_t index) {
  const ValueCode &value = frame.code.values[index];
  Slot &slot = frame.slots[index];
  Shape shape;
  frame.shape(value, shape);
  if (slot.destination && slot.destination->shape() == shape) {
    slot.tensor = TensorRef::retain(slot.destination);
    slot.exclusive = false;
  } else {
    auto tensor = Tensor::create(value.type, shape, run.session.memoryOf(value));
    if (!tensor)
      return tensor.status().within(named(value));
    slot.tensor = std::move(*tensor);
    slot.exclusive = true;
  }
  frame.setAddress(index, slot.tensor->data());
  return {};
}

/// Of the function's overwrites, a bit each: whether the argument will be the frame's alone.
uint64_t overwritable(const FunctionCode &code, std::span<const Passed> arguments) {
  uint64_t alone = 0;
  for (size_t i = 0; i < code.overwrites.size(); ++i) {
    const Passed &argument = arguments[code.overwrites[i].param];
    if (argument.last && argument.tensor && argument.tensor->isAlone())
      alone |= uint64_t(1) << i;
  }
  return alone;
}

/// Results take the places of arguments that nobody needs after them.
void overwrite(Frame &frame, uint64_t alone) {
  uint64_t taken = 0;
  Shape shape;
  for (; alone; alone &= alone - 1) {
    auto i = size_t(std::countr_zero(alone));
    auto [param, result] = frame.code.overwrites[i];
    const ValueCode &value = frame.code.values[result];
    Slot &slot = frame.slots[result];
    const Slot &from = frame.slots[frame.code.params[param]];
    frame.shape(value, shape);
    if (slot.tensor || taken >> i & 1 || from.tensor->shape() != shape)
      continue;
    for (size_t j = i; j < frame.code.overwrites.size(); ++j)
      taken |= uint64_t(frame.code.overwrites[j].param == param) << j;
    slot.tensor = from.tensor;
    slot.exclusive = true;
    frame.setAddress(result, slot.tensor->data());
  }
}

/// The results that are alike, if they are small; the others get theirs when they are computed.
Status allocateTogether(Frame &frame) {
  constexpr int64_t kMostBytes = int64_t(64) << 10;
  uint32_t placeless[kMostInBlock];
  size_t count = 0;
  for (uint32_t value : frame.code.together)
    if (!frame.slots[value].tensor && count < kMostInBlock)
      placeless[count++] = value;
  if (count < 2)
    return {};
  std::span<const uint32_t> values(placeless, count);
  const ValueCode &value = frame.code.values[values[0]];
  Shape shape;
  frame.shape(value, shape);
  auto size = elementCount(shape);
  if (!size || *size > kMostBytes / (int64_t(values.size()) * byteSize(value.type)))
    return {};
  TensorRef tensors[kMostInBlock];
  if (Status status = Tensor::createTogether(value.type, shape, {tensors, values.size()});
      !status.ok())
    return status.within(named(value));
  for (size_t i = 0; i < values.size(); ++i) {
    frame.setAddress(values[i], tensors[i]->data());
    frame.slots[values[i]].tensor = std::move(tensors[i]);
    frame.slots[values[i]].exclusive = true;
  }
  return {};
}

Status prepareKernel(const Run &run, Frame &frame, const Step &step) {
  for (size_t i = 0; step.lateSizes && i < step.sizes.size(); ++i)
    if ((frame.sizes[step.firstSize + i] = frame.exprs[step.sizes[i]]) == kPoison)
      return noSize(frame, step.sizes[i]);
  return placeResults(run, frame, step);
}

/// Whether the kernel did what it should.
bool call(Frame &frame, const Step &step) {
  if (frame.hasEmpty && computesNothing(frame, step))
    return true;
  return step.entry(&frame.calls[step.call]) == 0 &&
         !frame.context.failed.load(std::memory_order_relaxed);
}

Status executeKernel(Run &run, Frame &frame, const Step &step) {
  if (!step.bare)
    if (Status status = prepareKernel(run, frame, step); !status.ok())
      return status;
  if ((frame.hasEmpty || step.lateSizes) && computesNothing(frame, step)) {
    if (step.device)
      frame.launches->pass(step);
    return {};
  }
  if (step.device) {
    frame.launches->launch(step);
    return {};
  }
  return call(frame, step) ? Status() : kernelFailure(run.session.module(), step, frame.context);
}

Status executeView(Run &run, Frame &frame, const Step &step) {
  if (step.settled)
    return {};
  const ValueCode &value = frame.code.values[step.results[0]];
  const Slot &operand = frame.slots[step.operands[0]];
  Slot &slot = frame.slots[step.results[0]];
  Shape shape;
  frame.shape(value, shape);
  auto tensor = tensorOf(run, frame, step.operands[0]);
  if (!tensor)
    return tensor.status();
  auto seen = (*tensor)->reshaped(shape);
  if (!seen)
    return seen.status();
  slot.tensor = std::move(*seen);
  slot.exclusive = operand.exclusive && operand.tensor;
  frame.setAddress(step.results[0], slot.tensor->data());
  return {};
}

bool holds(plan::Relation relation, int64_t a, int64_t b) {
  switch (relation) {
  case plan::Relation::Equal:
    return a == b;
  case plan::Relation::AtMost:
    return a <= b;
  case plan::Relation::EqualOrOne:
    return a == b || a == 1;
  case plan::Relation::Broadcast:
    return a == b || a == 1 || b == 1;
  }
  return false;
}

Status holds(const Module &module, const Frame &frame, const Step &step) {
  if (step.sizes.size() > 2 && frame.exprs[step.sizes[2]] == 0)
    return {};
  for (uint32_t size : step.sizes)
    if (frame.exprs[size] == kPoison)
      return noSize(frame, size);
  int64_t a = frame.exprs[step.sizes[0]], b = frame.exprs[step.sizes[1]];
  if (holds(plan::Relation(step.target), a, b))
    return {};
  return invalidArgument(formatSizes(module.plan().messages()->Get(step.message)->str(), a, b));
}

Status executeStep(Run &run, Frame &frame, const Step &step) {
  if (!step.waits.empty() && !step.device)
    if (Status status = frame.launches->wait(step); !status.ok())
      return status;
  switch (step.opcode) {
  case plan::Opcode::Kernel:
    return executeKernel(run, frame, step);
  case plan::Opcode::View:
    return executeView(run, frame, step);
  case plan::Opcode::Routine:
    return executeRoutine(run, frame, step);
  case plan::Opcode::If:
    return executeIf(run, frame, step);
  case plan::Opcode::Loop:
    return executeLoop(run, frame, step);
  case plan::Opcode::Procedure:
    return executeProcedure(run, frame, step);
  case plan::Opcode::Copy:
    return executeCopy(run, frame, step);
  case plan::Opcode::Join:
    return {};
  case plan::Opcode::Check: // of sizes that were known beforehand: done when these were bound
    return step.settled ? Status() : holds(run.session.module(), frame, step);
  }
  return {StatusCode::Internal, "an instruction is unknown"};
}

/// The value of an expression of the step's, where it has that one.
int64_t valueOf(const Frame &frame, uint32_t expr) {
  return expr == kAbsent ? kPoison : frame.exprs[expr];
}

/// A call's bytes: all, and those of weights, which may be gathered from and so be more than are
/// read.
void addBytes(const Frame &frame, const Step &step, Profile::Entry &entry) {
  if (step.opcode == plan::Opcode::Join || step.opcode == plan::Opcode::Check)
    return;
  int64_t all = 0, constant = 0, largest = -1;
  for (Indices values : {step.operands, step.results})
    for (uint32_t value : values) {
      int64_t bytes = bytesOf(frame, value);
      all += bytes;
      if (value != kAbsent && frame.code.values[value].storage == plan::Storage::Constant)
        constant += bytes;
      if (value != kAbsent && bytes > largest) {
        largest = bytes;
        entry.type = frame.code.values[value].type;
      }
    }
  if (int64_t bytes = valueOf(frame, step.bytes); bytes != kPoison)
    all = bytes;
  constant = std::min(constant, all);
  if (__builtin_add_overflow(entry.bytes, all, &entry.bytes) ||
      __builtin_add_overflow(entry.constantBytes, constant, &entry.constantBytes))
    entry.bytes = entry.constantBytes = INT64_MAX;
}

/// To its end, where it is on a stream.
Status executeWholly(Run &run, Frame &frame, const Step &step) {
  Status status = executeStep(run, frame, step);
  return step.device && status.ok() ? frame.launches->finish() : status;
}

Status measureStep(Run &run, Frame &frame, const Step &step, uint32_t function, uint32_t index) {
  Trace *trace = run.profile->trace;
  frame.context.trace = trace;
  frame.context.function = function;
  frame.context.step = index;
  int64_t traced = trace ? trace->now() : 0;
  int64_t outside = std::exchange(run.profile->inside, 0);
  auto begin = std::chrono::steady_clock::now();
  Status status = executeWholly(run, frame, step);
  auto end = std::chrono::steady_clock::now();
  if (!status.ok())
    return status;
  if (trace)
    trace->add(function, index, traced);
  Profile::Entry &entry = run.profile->functions[function][index];
  int64_t nanoseconds = std::chrono::nanoseconds(end - begin).count();
  entry.nanoseconds += nanoseconds;
  entry.ownNanoseconds += nanoseconds - run.profile->inside;
  run.profile->inside = outside + nanoseconds;
  ++entry.count;
  int64_t flops = valueOf(frame, step.flops);
  if (flops == kPoison || entry.flops == kPoison ||
      __builtin_add_overflow(entry.flops, flops, &entry.flops))
    entry.flops = kPoison;
  addBytes(frame, step, entry);
  return status;
}

Status watchStep(Run &run, Frame &frame, const Step &step, uint32_t function, uint32_t index) {
  if (run.watch.checkFinite)
    noteOperands(run, frame, step);
  if (Status status = run.profile ? measureStep(run, frame, step, function, index)
                                  : executeWholly(run, frame, step);
      !status.ok())
    return status;
  if (run.watch.written && function == 0)
    if (Status status = tellWritten(run, frame, step); !status.ok())
      return status;
  if (run.watch.checkFinite)
    if (Status status = checkFinite(run, frame, step); !status.ok())
      return status;
  return run.watch.observe ? observeResults(run, frame, step) : Status();
}

Status executeSteps(Run &run, Frame &frame, uint32_t function) {
  bool plain = !run.profile && !run.watch.any();
  for (const Step &step : frame.code.steps) {
    // The common case, apart: a kernel that needs nothing but to be called.
    if (step.bare && plain) {
      if (call(frame, step)) [[likely]]
        continue;
      return located(run, step, kernelFailure(run.session.module(), step, frame.context));
    }
    auto index = uint32_t(&step - frame.code.steps.data());
    Status status =
        plain ? executeStep(run, frame, step) : watchStep(run, frame, step, function, index);
    if (!status.ok())
      return located(run, step, explained(frame, step, std::move(status)));
    for (uint32_t value : step.releases) {
      if (frame.launches)
        frame.launches->keep(std::move(frame.slots[value].tensor));
      frame.slots[value].tensor = {};
    }
  }
  return {};
}

/// Whether an earlier result already hands out the same memory.
bool handedOut(std::span<const Passed> results, const Tensor &tensor) {
  return std::any_of(results.begin(), results.end(), [&](const Passed &passed) {
    const Tensor &given = *passed.tensor;
    return &given == &tensor ||
           (given.bytes() && tensor.bytes() && given.data() < tensor.data() + tensor.bytes() &&
            tensor.data() < given.data() + given.bytes());
  });
}

/// A result for the caller. Outputs of main have memory that nothing else refers to; those of other
/// functions, memory that outlives the frame.
Result<Passed> passOut(Run &run, Frame &frame, uint32_t value, bool main, Tensor *destination,
                       std::span<const Passed> before) {
  const Slot &slot = frame.slots[value];
  if (destination && slot.tensor.get() == destination)
    return Passed{slot.tensor, false};
  auto tensor = tensorOf(run, frame, value);
  if (!tensor)
    return tensor.status();
  bool keep =
      (*tensor)->ownsMemory() && (!main || (slot.exclusive && !handedOut(before, **tensor)));
  if (keep)
    return Passed{std::move(*tensor), slot.exclusive};
  auto copy = (*tensor)->copy();
  if (!copy)
    return copy.status();
  return Passed{std::move(*copy), true};
}

/// Whether two tensors of the run share memory with one another need not be asked here: results
/// that are adopted were computed by an evaluator that has given them memory of their own.
Status adopt(Frame &frame, uint32_t index, Passed &result) {
  const ValueCode &value = frame.code.values[index];
  Slot &slot = frame.slots[index];
  bool arena =
      value.storage == plan::Storage::Arena && (!value.late || placeReserved(frame, index));
  bool direct = slot.destination && result.tensor->kind() == TensorKind::Tensor &&
                slot.destination->type() == result.tensor->type() &&
                slot.destination->shape() == result.tensor->shape();
  if (arena || direct) {
    std::byte *target = arena ? slot.data : slot.destination->data();
    copyWithin(result.tensor->device(), target, result.tensor->data(), result.tensor->bytes());
    if (direct) {
      slot.tensor = TensorRef::retain(slot.destination);
      slot.exclusive = false;
      frame.setAddress(index, target);
    }
    return {};
  }
  slot.tensor = std::move(result.tensor);
  slot.exclusive = result.exclusive;
  frame.setAddress(index, slot.tensor->data());
  return {};
}

bool fits(const ValueCode &value, const Tensor &tensor) {
  if (value.kind == plan::ValueKind::Optional)
    return true;
  if (uint8_t(value.kind) == uint8_t(plan::ValueKind::Sequence))
    return tensor.kind() == TensorKind::Sequence;
  if (value.kind == plan::ValueKind::Map)
    return tensor.kind() == TensorKind::Map;
  if (value.kind == plan::ValueKind::None)
    return tensor.kind() == TensorKind::None;
  if (value.kind == plan::ValueKind::Object)
    return tensor.kind() == TensorKind::Data || tensor.kind() == TensorKind::Function;
  return tensor.kind() == TensorKind::Tensor &&
         (value.type == DataType::Undefined || value.type == tensor.type()) &&
         (!value.ranked || value.dims.size() == tensor.shape().size());
}

bool isRankedTensor(const ValueCode &value) {
  return value.kind == plan::ValueKind::Tensor && value.ranked;
}

/// Gives the symbols that this step decides their values.
void learnSymbols(Frame &frame, const Step &step, std::span<const Passed> results) {
  const FunctionCode &code = frame.code;
  int32_t time = int32_t(&step - code.steps.data());
  for (uint32_t expr : step.learned)
    if (code.exprs[expr].kind() == plan::ExprKind::Symbol)
      frame.symbols[size_t(code.exprs[expr].a())] = kPoison;
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueCode &value = code.values[step.results[i]];
    for (size_t j = 0; isRankedTensor(value) && j < value.dims.size(); ++j) {
      const plan::Expr &expr = code.exprs[value.dims[j]];
      if (expr.kind() == plan::ExprKind::Symbol && code.times.symbols[size_t(expr.a())] == time &&
          frame.symbols[size_t(expr.a())] == kPoison)
        frame.symbols[size_t(expr.a())] = results[i].tensor->shape()[j];
    }
  }
  for (uint32_t expr : step.learned)
    frame.exprs[expr] = evaluate(code.exprs[expr], frame.symbols.data(), frame.exprs.data());
}

} // namespace

Status located(const Module &module, const Step &step, const Status &status) {
  std::string_view location = module.location(step.location);
  return location.empty() ? status : status.within(location);
}

bool computesNothing(const Frame &frame, const Step &step) {
  auto isEmpty = [&](uint32_t index) {
    const ValueCode &value = frame.code.values[index];
    for (size_t i = 0; i < value.dims.size(); ++i)
      if (frame.dim(value, i) == 0)
        return true;
    return false;
  };
  return !step.results.empty() && std::ranges::all_of(step.results, isEmpty);
}

Status placeResults(const Run &run, Frame &frame, const Step &step) {
  for (uint32_t result : step.results) {
    const ValueCode &value = frame.code.values[result];
    bool placed = fixedAddress(value) && (!value.late || placeReserved(frame, result));
    if (!placed && !frame.slots[result].tensor)
      if (Status status = allocateResult(run, frame, result); !status.ok())
        return status;
  }
  return {};
}

Status failureOf(const Module &module, const Step &step, const KernelContext &context) {
  return located(module, step, kernelFailure(module, step, context));
}

Status checkSizes(const Module &module, const Frame &frame, const Step &step) {
  Status status = holds(module, frame, step);
  return status.ok() ? status : located(module, step, status);
}

Status callSteps(const Run &run, Frame &frame) {
  for (const Step &step : frame.code.steps)
    if (step.opcode == plan::Opcode::View)
      frame.setAddress(step.results[0], frame.slots[step.operands[0]].data);
    else if (step.opcode == plan::Opcode::Kernel && !call(frame, step))
      return located(run, step, kernelFailure(run.session.module(), step, frame.context));
  return {};
}

int64_t bytesOf(const Frame &frame, uint32_t value) {
  if (value == kAbsent)
    return 0;
  if (const Tensor *tensor = frame.slots[value].tensor.get())
    return tensor->bytes();
  Shape shape;
  frame.shape(frame.code.values[value], shape);
  return elementCount(shape).value_or(0) * byteSize(frame.code.values[value].type);
}

bool placeReserved(Frame &frame, uint32_t index) {
  const ValueCode &value = frame.code.values[index];
  Shape shape;
  frame.shape(value, shape);
  auto count = elementCount(shape);
  int64_t bytes;
  if (!count || __builtin_mul_overflow(*count, byteSize(value.type), &bytes) ||
      bytes > frame.exprs[value.reserved])
    return false;
  frame.setAddress(index, placeInArena(frame, value));
  return true;
}

Status storeResults(const Run &run, Frame &frame, const Step &step, std::span<Passed> results) {
  const FunctionCode &code = frame.code;
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueCode &value = code.values[step.results[i]];
    if (!fits(value, *results[i].tensor))
      return invalidArgument("should be " + declaredType(code, value) + ", but was computed as " +
                             describe(*results[i].tensor))
          .within(named(value));
    if (isRankedTensor(value) && results[i].tensor->device() != run.session.memoryOf(value))
      return Status(StatusCode::Internal, "was computed in another memory").within(named(value));
  }
  learnSymbols(frame, step, results);
  for (size_t i = 0; i < results.size(); ++i) {
    uint32_t index = step.results[i];
    const ValueCode &value = code.values[index];
    for (size_t j = 0; isRankedTensor(value) && j < value.dims.size(); ++j)
      if (frame.dim(value, j) != results[i].tensor->shape()[j])
        return invalidArgument("should be " + declaredType(code, value) + ", but was computed as " +
                               describe(*results[i].tensor) + ": dimension " + std::to_string(j) +
                               " should be " + std::to_string(frame.dim(value, j)))
            .within(named(value));
    if (Status status = adopt(frame, index, results[i]); !status.ok())
      return status;
  }
  return {};
}

/// Rows that lie apart, one behind the other.
static Result<TensorRef> gathered(const ValueCode &value, const Shape &shape,
                                  const std::byte *from) {
  auto tensor = Tensor::create(value.type, shape);
  if (!tensor || (*tensor)->bytes() == 0)
    return tensor;
  int64_t row = shape.back() * byteSize(value.type);
  for (int64_t at = 0; at < (*tensor)->bytes(); at += row, from += value.pitch)
    std::memcpy((*tensor)->data() + at, from, size_t(row));
  return tensor;
}

Result<TensorRef> tensorOf(const Run &run, const Frame &frame, uint32_t index) {
  const ValueCode &value = frame.code.values[index];
  const Slot &slot = frame.slots[index];
  if (slot.tensor)
    return slot.tensor;
  Shape shape;
  frame.shape(value, shape);
  // Constants lie in the module, which the session keeps; a tensor on them may outlive the session.
  std::shared_ptr<const void> owner;
  if (value.storage == plan::Storage::Constant)
    owner = run.session.weightsOwner(value.device);
  if (value.pitch)
    return gathered(value, shape, slot.data);
  auto tensor = Tensor::on(value.type, shape, slot.data, std::move(owner));
  if (tensor)
    (*tensor)->setDevice(run.session.memoryOf(value));
  return tensor;
}

Result<TensorRef> operandOf(const Run &run, const Frame &frame, const Step &step, size_t index) {
  if (index >= step.operands.size() || step.operands[index] == kAbsent)
    return TensorRef();
  return tensorOf(run, frame, step.operands[index]);
}

Result<std::vector<Passed>> execute(Run &run, Frame &frame, uint32_t function,
                                    std::span<const Passed> arguments,
                                    std::span<const int64_t> given,
                                    std::span<Tensor *const> destinations) {
  frame.clear();
  frame.special.clear();
  const FunctionCode &code = frame.code;
  uint64_t alone = overwritable(code, arguments);
  if (Status status = bindParameters(run.session, frame, arguments, given); !status.ok())
    return status;
  for (size_t i = 0; i < destinations.size(); ++i)
    if (code.values[code.results[i]].storage == plan::Storage::Result &&
        !frame.slots[code.results[i]].destination)
      frame.slots[code.results[i]].destination = destinations[i];
  overwrite(frame, alone);
  if (function != 0 && !code.together.empty())
    if (Status status = allocateTogether(frame); !status.ok())
      return status;
  if (run.watch.written && function == 0) {
    run.destinations = destinations;
    run.told.assign(destinations.size(), false);
  }
  Status status = executeSteps(run, frame, function);
  // What failed on a stream comes before what the host did not do therefore.
  if (frame.launches)
    if (Status finished = frame.launches->finish(); !finished.ok())
      status = finished;
  if (!status.ok())
    return status;
  std::vector<Passed> results;
  results.reserve(code.results.size());
  for (size_t i = 0; i < code.results.size(); ++i) {
    Tensor *destination = destinations.empty() ? nullptr : destinations[i];
    if (destination && i < run.told.size() && run.told[i] && function == 0) {
      results.push_back({TensorRef::retain(destination), false});
      continue;
    }
    auto result = passOut(run, frame, code.results[i], function == 0, destination, results);
    if (!result)
      return result.status();
    results.push_back(std::move(*result));
  }
  return results;
}

} // namespace tensmith::runtime
