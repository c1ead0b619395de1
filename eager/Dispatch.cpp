// Small operations run here and now; a push takes longer than most of them.
#include "eager/Dispatch.h"

#include "eager/Coexecution.h"
#include "eager/Forks.h"
#include "eager/Kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>

namespace tensmith::eager {
namespace {

/// Elements up to which an operation runs where it is issued: about as long as it takes to wake a
/// thread (10 us).
constexpr int64_t kSmall = 4096;

/// Bytes that the engine has yet to write, and copies to read, beyond which whoever issues more
/// waits: a loop that never reads anything must not fill the memory.
constexpr int64_t kMostPending = int64_t(1) << 26;
std::atomic<int64_t> pendingBytes{0};

/// Counts from the push until the operation is done or dropped.
class Pending {
public:
  explicit Pending(int64_t bytes) : bytes_(bytes) { pendingBytes += bytes; }
  ~Pending() { pendingBytes -= bytes_; }
  Pending(const Pending &) = delete;

private:
  int64_t bytes_;
};

Caller caller;

bool isReady(const Array &array) { return Engine::ofProcess().isReady(array.storage()->variable); }
bool isShared(const Array &array) { return array.storage()->isShared(); }

/// What an operation takes, in elements; products count their multiplications.
int64_t workOf(const Operator &op, std::span<const Array> operands) {
  int64_t work = 0;
  for (const Array &operand : operands)
    work = std::max(work, operand.size());
  if (op.form == KernelForm::Contraction)
    work *= operands[1].shape().empty() ? 1 : operands[1].shape().back();
  return work;
}

bool hasComplex(const Attributes &attributes, std::span<const Array> operands) {
  for (const Array &operand : operands)
    if (isComplex(operand.type()))
      return true;
  return attributes.has("to") && isComplex(attributes.type("to"));
}

/// An evaluation's own lists may find no memory; its tensors report that themselves.
Result<std::vector<HostTensor>> called(reference::Evaluator evaluator,
                                       const reference::Invocation &invocation) try {
  ResourceScope scope(resourcesOfProcess());
  return evaluator(invocation);
} catch (const std::bad_alloc &) {
  return Status(StatusCode::ResourceExhausted, std::string(invocation.name) + ": no memory");
} catch (const std::length_error &) {
  return Status(StatusCode::ResourceExhausted, std::string(invocation.name) + ": no memory");
}

Result<std::vector<Array>> denseRows(std::span<const Array> operands) {
  std::vector<Array> rows;
  rows.reserve(operands.size());
  for (const Array &operand : operands) {
    Result<Array> row = dense(operand);
    if (!row.ok())
      return row.status();
    rows.push_back(std::move(*row));
  }
  return rows;
}

/// The operands' variables are ready. `set`: results that are set aside already; written in place
/// where they are dense.
Result<std::vector<Array>> evaluate(const Operator &op, const Attributes &attributes,
                                    std::span<const Array> operands, std::span<const Array> set,
                                    std::span<const reference::ResultType> types) {
  Result<std::vector<Array>> copied = denseRows(operands);
  if (!copied.ok())
    return copied.status();
  std::vector<Array> &rows = *copied;
  bool complex = hasComplex(attributes, operands);
  Result<const Device *> device = set.empty() ? deviceOf(operands) : set[0].device();
  if (!device.ok())
    return device.status();
  if (!complex && op.form != KernelForm::None && !types.empty())
    if (auto results = Kernels::ofProcess().run(op, attributes, rows, types, set))
      return std::move(*results);
  reference::Evaluator evaluator = complex ? op.evaluateComplex : op.evaluate;
  if (!evaluator)
    return unsupported(std::string(op.name) + ": elements of type " +
                       std::string(name(operands[0].type())) + " are not handled");
  std::vector<HostTensor> tensors;
  for (const Array &row : rows)
    tensors.push_back(row.asHostTensor());
  std::vector<reference::ResultType> wanted(types.begin(), types.end());
  for (size_t i = 0; i < set.size(); ++i)
    wanted[i].memory = {set[i].data(), size_t(set[i].size() * byteSize(set[i].type()))};
  auto results =
      called(evaluator, {op.graph.empty() ? op.name : op.graph, attributes, tensors, wanted});
  if (!results.ok())
    return results.status();
  std::vector<Array> arrays;
  for (size_t i = 0; i < results->size(); ++i) {
    HostTensor &result = (*results)[i];
    if (i >= set.size()) {
      Result<Array> given = on(*device, Array::adopt(std::move(result)));
      if (!given.ok())
        return given.status();
      arrays.push_back(std::move(*given));
    } else if (result.data() != set[i].elements() && result.bytes() > 0) {
      std::memcpy(set[i].data(), result.data(), size_t(result.bytes()));
    }
  }
  return arrays;
}

/// Whether whoever issues a run, and waits for it, is to do it there and then, with the
/// interpreter's lock: the engine has nothing to do, and gets nothing meanwhile, and the run takes
/// no longer than the one before it.
bool runsHere(const Compiled &compiled, std::span<const Array> inputs) {
  const Engine &engine = Engine::ofProcess();
  return !compiled.repeats && compiled.isShort() && engine.isIdle() && !engine.isTracing() &&
         std::ranges::all_of(inputs, [](const Array &x) { return x.isDense() && isReady(x); });
}

/// Of the elements that a view keeps alive, some of which it may show several times.
int64_t bytesOf(const Array &array) {
  return std::min(array.size() * byteSize(array.type()), array.storage()->bytes);
}

/// Before more is pushed.
void waitWhereMuchIsPending() {
  if (pendingBytes <= kMostPending)
    return;
  LetGo unlocked;
  Engine::ofProcess().waitForAll();
}

/// To the engine, which does it here where it has no other thread.
void hand(Task task) {
  Engine &engine = Engine::ofProcess();
  Engine::Announced announced(engine); // others may issue once the lock is let go of
  std::optional<LetGo> unlocked;
  if (engine.naive() || engine.threads() == 1)
    unlocked.emplace();
  engine.push(std::move(task));
}

using Arrays = std::span<const Array>;

using Body = std::function<Status(Arrays operands, Arrays results)>;

/// By the engine: `body` computes the results, which are set aside, later from the operands.
/// `also`: what else is written. `kept`: of what is written that which a failure leaves as it was.
Status pushInto(const char *name, Arrays operands, Arrays given, Body body,
                std::vector<VariableRef> also = {}, std::vector<VariableRef> kept = {}) {
  waitWhereMuchIsPending();
  std::vector<Array> results(given.begin(), given.end());
  Task task;
  task.writes.reserve(results.size() + also.size());
  task.reads.reserve(operands.size());
  int64_t bytes = 0;
  for (const Array &result : results) {
    task.writes.push_back(result.variable());
    bytes += result.storage()->bytes;
  }
  std::ranges::move(also, std::back_inserter(task.writes));
  task.kept = std::move(kept);
  for (const Array &operand : operands)
    task.reads.push_back(operand.variable());
  task.name = name;
  task.place = placeOfCall();
  task.body = [body = std::move(body), results = std::move(results),
               pending = std::make_shared<Pending>(bytes),
               operands = std::vector<Array>(operands.begin(), operands.end())] {
    return body(operands, results);
  };
  hand(std::move(task));
  return {};
}

Result<std::vector<Array>> setAside(const std::vector<reference::ResultType> &types,
                                    const Device *device) {
  std::vector<Array> results;
  for (const reference::ResultType &type : types) {
    Result<Array> result = Array::allocate(type.type, *type.shape, device);
    if (!result.ok())
      return result.status();
    results.push_back(std::move(*result));
  }
  return results;
}

/// Sets aside those of the results that are not there yet, of the types and shapes of arrays whose
/// storages are of no matter; on spare memory where there is some.
Status setAside(std::span<Array> results, Arrays types, const Device *device, SpareResults *spare) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (results[i])
      continue;
    if (auto reused = spare ? spare->take(i) : std::nullopt; reused && reused->device() == device) {
      results[i] = std::move(*reused);
      continue;
    }
    Result<Array> result = Array::later(types[i], device);
    if (!result.ok())
      return result.status();
    if (Status status = result->provide(); !status.ok())
      return status;
    results[i] = std::move(*result);
  }
  return {};
}

/// Gives the program the inputs that it updates as these results.
Status giveUpdated(const Compiled &compiled, Arrays inputs, std::span<Array> results) {
  for (const auto &[input, result] : compiled.updates()) {
    const Array &array = inputs[input];
    if (!array.isDense() || !array.storage()->writable)
      continue; // what it becomes is a result as any
    if (Status status = Coexecution::read(array, /*toWrite=*/true); !status.ok())
      return status;
    if (Status status = beforeWrite(array); !status.ok())
      return status;
    results[result] = array;
  }
  return {};
}

/// The same, with results that are set aside now.
Result<std::vector<Array>> push(const char *name, Arrays operands,
                                const std::vector<reference::ResultType> &types,
                                const Device *device, Body body) {
  Result<std::vector<Array>> results = setAside(types, device);
  if (results.ok())
    if (Status status = pushInto(name, operands, *results, std::move(body)); !status.ok())
      return status;
  return results;
}

std::vector<reference::ResultType> typesOf(Arrays arrays) {
  std::vector<reference::ResultType> types;
  for (const Array &array : arrays)
    types.push_back({array.type(), array.shape()});
  return types;
}

/// Steps that are co-executed have their elements computed before others take them.
Status readOfSteps(Arrays arrays) {
  for (const Array &array : arrays)
    if (Status status = Coexecution::read(array); !status.ok())
      return status;
  return {};
}

/// Whether the operation can be a part of a graph.
bool hasGraph(const Operator &op, const Attributes &attributes, Arrays operands,
              const std::vector<reference::ResultType> &types) {
  return op.infer && !op.graph.empty() && !hasComplex(attributes, operands) &&
         std::none_of(types.begin(), types.end(), [](const auto &t) { return isComplex(t.type); });
}

/// Without the interpreter's lock.
Status waitNow(const Array &array, bool toWrite = false) {
  return Engine::ofProcess().wait(array.storage()->variable, toWrite);
}

Status waitUnlocked(const Array &array) {
  LetGo unlocked;
  return waitNow(array);
}

/// Once the engine is done with both.
Status copyNow(const Array &to, const Array &from) {
  LetGo unlocked;
  if (Status status = waitNow(from); !status.ok())
    return status;
  if (Status status = waitNow(to, /*toWrite=*/true); !status.ok())
    return status;
  return copyElements(to, from);
}

/// By the engine. `outcome`: what is written besides, may be null; then a failure leaves the inputs
/// that the run updates as they were, and stays with the outcome and the other results.
Status pushRun(std::shared_ptr<const Compiled> compiled, const char *name, Arrays inputs,
               Arrays results, VariableRef outcome = nullptr) {
  auto run = [compiled](Arrays operands, Arrays results) -> Status {
    if (std::ranges::all_of(operands, &Array::isDense))
      return compiled->run(operands, results);
    Result<std::vector<Array>> rows = denseRows(operands);
    return rows.ok() ? compiled->run(*rows, results) : rows.status();
  };
  for (const Array &input : inputs)
    if (isShared(input))
      if (Status status = waitUnlocked(input); !status.ok())
        return status;
  std::vector<VariableRef> also, kept;
  if (compiled->memory())
    also.push_back(compiled->memory()->variable);
  if (outcome)
    for (const auto &[input, result] : compiled->updates())
      if (results[result].storage() == inputs[input].storage())
        kept.push_back(inputs[input].variable());
  if (outcome)
    also.push_back(std::move(outcome));
  if (Status status = pushInto(name, inputs, results, run, std::move(also), std::move(kept));
      !status.ok())
    return status;
  if (!results.empty() && std::any_of(inputs.begin(), inputs.end(), isShared))
    return waitUnlocked(results.front());
  return {};
}

/// The results, once they are computed. The failure is the caller's to tell.
Result<std::vector<Array>> runAwaited(std::shared_ptr<const Compiled> compiled, const char *name,
                                      Arrays inputs, std::vector<Array> results) {
  auto outcome = std::make_shared<Variable>();
  if (Status status = pushRun(std::move(compiled), name, inputs, results, outcome); !status.ok())
    return status;
  LetGo unlocked;
  if (Status status = Engine::ofProcess().wait(*outcome); !status.ok())
    return status;
  return results;
}

/// Operands' variables are ready. Operations under way may hold memory that the evaluation lacks.
Result<std::vector<Array>> evaluateNow(const Operator &op, const Attributes &attributes,
                                       std::span<const Array> operands,
                                       std::span<const reference::ResultType> types) {
  auto results = evaluate(op, attributes, operands, {}, types);
  Engine &engine = Engine::ofProcess();
  if (results.ok() || results.status().code() != StatusCode::ResourceExhausted || engine.isIdle())
    return results;
  engine.waitForAll();
  return evaluate(op, attributes, operands, {}, types);
}

Result<std::vector<Array>> done(const Operator &op, const Attributes &attributes,
                                std::span<const Array> operands) {
  std::vector<reference::ResultType> types;
  if (op.infer) {
    ResultTypes inferred = op.infer(attributes, operands);
    if (!inferred.ok())
      return inferred.status();
    types = std::move(*inferred);
  }
  Result<const Device *> device = deviceOf(operands);
  if (!device.ok())
    return device.status();
  Coexecution *step = Coexecution::current();
  if (step && !*device && hasGraph(op, attributes, operands, types))
    return step->operation(op, attributes, operands, types);
  if (Status status = readOfSteps(operands); !status.ok())
    return status;
  bool isHere = std::all_of(operands.begin(), operands.end(), isReady);
  bool isLater = op.infer && !Engine::ofProcess().naive() &&
                 (!isHere || workOf(op, operands) > kSmall) &&
                 std::none_of(operands.begin(), operands.end(), isShared);
  if (isLater)
    return push(op.name.data(), operands, types, *device,
                [&op, attributes, types](Arrays operands, Arrays results) -> Status {
                  auto done = evaluate(op, attributes, operands, results, types);
                  return done.ok() ? Status() : done.status();
                });
  if (isHere && op.infer && !*device && workOf(op, operands) <= kSmall) // shorter than to let go
    return evaluateNow(op, attributes, operands, types);
  std::vector<Array> kept(operands.begin(), operands.end());
  LetGo unlocked;
  for (const Array &operand : kept)
    if (Status status = waitNow(operand); !status.ok())
      return status;
  return evaluateNow(op, attributes, kept, types);
}

/// Of a broadcast, whose elements are several places of the tensor.
bool isBroadcast(const Array &array) {
  for (size_t axis = 0; axis < array.shape().size(); ++axis)
    if (array.size() > 0 && array.shape()[axis] > 1 && array.strides()[axis] == 0)
      return true;
  return false;
}

} // namespace

Result<std::vector<Array>> dispatch(const Operator &op, const Attributes &attributes,
                                    std::span<const Array> operands) {
  orderForks();
  auto results = done(op, attributes, operands);
  if (results.ok())
    if (Status status = tellTapes([&](Tape &tape) {
          return tape.record(op.name, attributes, operands, *results, !op.graph.empty());
        });
        !status.ok())
      return status;
  return results;
}

Result<std::vector<Array>> issue(std::shared_ptr<const Compiled> compiled, const char *name,
                                 std::span<const Array> inputs, std::span<const Array> types,
                                 const IssueOptions &options) {
  orderForks();
  Result<std::vector<Array>> results = std::vector<Array>(types.size());
  // One program runs on one device. What lies elsewhere is copied there.
  auto elsewhere = std::ranges::find_if(inputs, [](const Array &x) { return x.device(); });
  const Device *device = elsewhere == inputs.end() ? nullptr : elsewhere->device();
  if (device && device != compiled->device()) {
    auto there = compiled->on(*device, caller.compileOn);
    if (!there.ok())
      return there.status();
    compiled = std::move(*there);
  }
  Coexecution *step = Coexecution::current();
  if (step && !device && !compiled->text.empty()) {
    results = step->program(std::move(compiled), inputs, typesOf(types));
    if (!results.ok())
      return results;
  } else {
    if (Status status = readOfSteps(inputs); !status.ok())
      return status;
    if (options.updatesInputs)
      if (Status status = giveUpdated(*compiled, inputs, *results); !status.ok())
        return status;
    if (Status status = setAside(*results, types, device, options.spare); !status.ok())
      return status;
    if (options.isAwaited && runsHere(*compiled, inputs)) {
      Status status = compiled->run(inputs, *results);
      return status.ok() ? std::move(results) : status;
    }
    if (options.isAwaited)
      return runAwaited(std::move(compiled), name, inputs, std::move(*results));
    if (Status status = runInto(std::move(compiled), name, inputs, *results); !status.ok())
      return status;
  }
  if (options.isAwaited && !results->empty())
    if (Status status = wait(results->front()); !status.ok())
      return status;
  return results;
}

Status runInto(std::shared_ptr<const Compiled> compiled, const char *name,
               std::span<const Array> inputs, std::span<const Array> results) {
  return pushRun(std::move(compiled), name, inputs, results);
}

Status computeInto(const Operator &op, const Attributes &attributes, Arrays operands,
                   Arrays results) {
  return pushInto(op.name.data(), operands, results,
                  [&op, attributes](Arrays operands, Arrays results) -> Status {
                    auto done = evaluate(op, attributes, operands, results, typesOf(results));
                    return done.ok() ? Status() : done.status();
                  });
}

void waitForEngine(Arrays forgiven) {
  LetGo unlocked;
  Engine &engine = Engine::ofProcess();
  engine.waitForAll();
  for (const Array &array : forgiven)
    engine.forgive(array.storage()->variable);
}

std::string placeOfCall() { return caller.place ? caller.place() : std::string(); }

size_t stackOfCall() { return caller.stack ? caller.stack() : 0; }

Status tellView(const Array &of, const Array &view, ViewStep step) {
  if (Coexecution *coexecution = Coexecution::current())
    coexecution->view(of, view, step);
  return tellTapes([&](Tape &tape) {
    tape.view(of, view, step);
    return Status();
  });
}

bool areViewsTold() { return Coexecution::current() || !Tape::recording().empty(); }

Status concatenateInto(int64_t axis, Arrays parts, const Array &result) {
  int64_t offset = 0, step = result.strides()[size_t(axis)];
  for (const Array &part : parts) {
    if (Status status = copyInto(result.view(part.shape(), result.strides(), offset), part);
        !status.ok())
      return status;
    offset += part.shape()[size_t(axis)] * step;
  }
  return {};
}

Result<Array> concatenate(int64_t axis, Arrays parts, Shape shape) {
  DataType type = parts[0].type();
  Result<const Device *> device = deviceOf(parts);
  if (!device.ok())
    return device.status();
  Result<Array> result = Array();
  if (Coexecution *step = Coexecution::current(); step && !*device && !isComplex(type)) {
    result = step->concat(axis, parts, type, std::move(shape));
    if (!result.ok())
      return result;
  } else {
    if (Status status = readOfSteps(parts); !status.ok())
      return status;
    result = Array::allocate(type, std::move(shape), *device);
    if (!result.ok())
      return result;
    if (Status status = concatenateInto(axis, parts, *result); !status.ok())
      return status;
  }
  Attributes attributes;
  attributes.set("axis", axis);
  if (Status status = tellTapes(
          [&](Tape &tape) { return tape.record("concat", attributes, parts, {&*result, 1}); });
      !status.ok())
    return status;
  return result;
}

Status checkWritable(const Array &to) {
  if (!to.storage()->writable)
    return invalidArgument("the tensor is on memory that may only be read; assign to a copy");
  if (isBroadcast(to))
    return invalidArgument("the tensor is a broadcast, several of whose elements are one place; "
                           "assign to a copy");
  return {};
}

Status beforeWrite(const Array &to) { return Tape::keepInputs(*to.storage()); }

namespace {

struct Copy {
  Array to, from;
  bool isMoved = false; // `from` is nobody else's, and its memory may become `to`'s
};

/// Both are all of their storages, whose variables the operation has.
bool canExchange(const Array &to, const Array &from) {
  int64_t bytes = to.storage()->bytes;
  return !isShared(to) && to.isDense() && from.isDense() && from.storage()->bytes == bytes &&
         bytesOf(to) == bytes && to.device() == from.device();
}

void exchange(Storage &to, Storage &from) {
  std::swap(to.data, from.data);
  std::swap(to.owner, from.owner);
  std::swap(to.charge, from.charge);
  std::swap(to.onDevice, from.onDevice);
}

Status copyInOrder(std::span<const Copy> copies) {
  for (const auto &[to, from, isMoved] : copies)
    if (isMoved && canExchange(to, from))
      exchange(*to.storage(), *from.storage());
    else if (Status status = copyElements(to, from); !status.ok())
      return status;
  return {};
}

/// One after the other, as one operation of the engine: what an optimiser writes would be one for
/// each of its parameters and their states. What is moved may come in any order.
Status copyAll(std::vector<Copy> copies) {
  auto isSharedCopy = [](const Copy &each) { return isShared(each.to) || isShared(each.from); };
  bool isAnyShared = std::ranges::any_of(copies, isSharedCopy);
  std::vector<Copy> later;
  later.reserve(copies.size());
  for (Copy &each : copies)
    if (!isAnyShared || (each.isMoved && !isSharedCopy(each)))
      later.push_back(std::move(each));
    else if (Status status = copyNow(each.to, each.from); !status.ok())
      return status;
  if (later.empty())
    return {};
  auto isSmallAndReady = [](const Copy &each) {
    return each.to.size() <= kSmall && isReady(each.to) && isReady(each.from);
  };
  if (Engine::ofProcess().isIdle() && std::ranges::all_of(later, isSmallAndReady))
    return copyInOrder(later);
  Task task;
  int64_t bytes = 0; // that wait for the copies; what is moved was there, and one of both goes
  for (const auto &[to, from, isMoved] : later) {
    task.writes.push_back(to.variable());
    (isMoved ? task.writes : task.reads).push_back(from.variable());
    bytes += isMoved ? 0 : bytesOf(to) + bytesOf(from);
  }
  if (bytes > 0)
    waitWhereMuchIsPending();
  task.name = "assign";
  task.place = placeOfCall();
  task.body = [later = std::move(later), pending = std::make_shared<Pending>(bytes)] {
    return copyInOrder(later);
  };
  hand(std::move(task));
  return {};
}

} // namespace

/// Which of the values, by number, become their places' own memory: of those that the list alone
/// has
/// (`taken`) each that is there once.
static std::vector<char> movedOf(Arrays from, std::span<const size_t> taken) {
  std::vector<const Storage *> uses;
  // An operation that is over may have the storage yet, but does not look at it any more.
  auto isUsedOnce = [&](const Array &array) {
    if (array.storage().use_count() == 1)
      return true;
    if (uses.empty()) {
      for (const Array &each : from)
        uses.push_back(each.storage().get());
      std::ranges::sort(uses);
    }
    return std::ranges::equal_range(uses, array.storage().get()).size() == 1;
  };
  std::vector<char> isMoved(from.size(), 0);
  for (size_t i : taken)
    isMoved[i] = !from[i].storage()->history && isUsedOnce(from[i]);
  return isMoved;
}

/// Writes what tapes have been told of. A co-executed step that is under way may put it off. Values
/// whose numbers are given are nobody else's.
static Status writeAll(Arrays to, Arrays from, std::span<const size_t> taken = {}) {
  // Tapes and co-executed steps keep what they are told of.
  bool isKept = !Tape::recording().empty() || Coexecution::current();
  std::vector<char> isMoved = movedOf(from, isKept ? std::span<const size_t>() : taken);
  for (size_t i = 0; i < to.size(); ++i) {
    if (Status status = beforeWrite(to[i]); !status.ok())
      return status;
    if (isMoved[i]) // it gets what the place had: a write of it, too
      if (Status status = beforeWrite(from[i]); !status.ok())
        return status;
  }
  std::vector<size_t> left;
  left.reserve(to.size());
  auto isOnDevice = [](const Array &array) { return array.device() != nullptr; };
  bool isAnyOnDevice = std::ranges::any_of(to, isOnDevice) || std::ranges::any_of(from, isOnDevice);
  if (Coexecution *step = Coexecution::current(); step && !isAnyOnDevice) {
    Result<std::vector<size_t>> told = step->write(to, from);
    if (!told.ok())
      return told.status();
    left = std::move(*told);
  } else {
    for (size_t i = 0; i < to.size(); ++i) {
      if (Status status = Coexecution::read(to[i], /*toWrite=*/true); !status.ok())
        return status;
      left.push_back(i);
    }
  }
  for (size_t i : left)
    if (Status status = readOfSteps({&from[i], 1}); !status.ok())
      return status;
  // What a tape keeps of a place may be a copy that is under way.
  const Engine &engine = Engine::ofProcess();
  bool isIdle = engine.isIdle() && !engine.isTracing(); // a trace has all that is written
  std::vector<Copy> copies; // from the first on that takes longer than an exchange
  for (size_t i : left) {
    bool isNow = copies.empty() && isIdle && isMoved[i] && !isShared(from[i]) &&
                 canExchange(to[i], from[i]) && isReady(to[i]) && isReady(from[i]);
    if (isNow)
      exchange(*to[i].storage(), *from[i].storage());
    else
      copies.push_back({to[i], from[i], isMoved[i] != 0});
  }
  return copies.empty() ? Status() : copyAll(std::move(copies));
}

Status assign(const Array &to, const Array &from) {
  orderForks();
  if (Status status = checkWritable(to); !status.ok())
    return status;
  Result<Array> converted = cast(from, to.type());
  if (!converted.ok())
    return converted.status();
  std::optional<Array> source = converted->broadcastTo(to.shape());
  if (!source)
    return invalidArgument("a value of shape " + toString(from.shape()) +
                           " can't be assigned to a place of shape " + toString(to.shape()));
  if (Status status = tellTapes([&](Tape &tape) { return tape.write(to, *converted); });
      !status.ok())
    return status;
  return writeAll({&to, 1}, {&*source, 1});
}

static std::string textOf(const Array &array) {
  return std::string(name(array.type())) + " " + toString(array.shape());
}

Status assignAll(Arrays to, Arrays from, std::span<const size_t> taken) {
  orderForks();
  // Before a tape is told of any: it takes what it is told as done.
  for (size_t i = 0; i < to.size(); ++i) {
    if (Status status = checkWritable(to[i]); !status.ok())
      return status;
    bool fits = to[i].hasForm(from[i]) ||
                (to[i].type() == from[i].type() && to[i].shape() == from[i].shape());
    if (!fits)
      return invalidArgument("value " + std::to_string(i) + " is " + textOf(from[i]) +
                             ", and its place " + textOf(to[i]) +
                             "; give values of their places' types and shapes");
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (Status status = tellTapes([&](Tape &tape) { return tape.write(to[i], from[i]); });
        !status.ok())
      return status;
  }
  return writeAll(to, from, taken);
}

Status copyInto(const Array &to, const Array &source) { return copyAll({{to, source}}); }

Status moveInto(Arrays to, Arrays from) {
  std::vector<Copy> copies;
  for (size_t i = 0; i < to.size(); ++i)
    copies.push_back({to[i], from[i], /*isMoved=*/true});
  return copyAll(std::move(copies));
}

Status wait(const Array &array, bool toWrite) {
  if (Status status = Coexecution::read(array, toWrite); !status.ok())
    return status;
  if (!toWrite && isReady(array))
    return {};
  LetGo unlocked;
  return waitNow(array, toWrite);
}

/// Kept by the storage that it is of, so that whether it is there does not depend on who else is.
struct Snapshot {
  Array of, copy; // the one without its storage
};

Result<Array> snapshotOf(const Array &array) {
  if (Status status = waitUnlocked(array); !status.ok())
    return status;
  Storage &storage = *array.storage();
  Result<Array> now = dense(array);
  if (!now.ok())
    return now;
  if (storage.snapshot && storage.snapshot->of.hasForm(array)) {
    const Array &kept = storage.snapshot->copy;
    if (std::memcmp(kept.elements(), now->elements(), size_t(kept.storage()->bytes)) == 0)
      return kept;
  }
  if (now->storage() == array.storage()) {
    now = Array::allocate(array.type(), array.shape(), array.device());
    if (!now.ok())
      return now;
    if (Status status = copyElements(*now, array); !status.ok())
      return status;
  }
  storage.snapshot = std::make_shared<Snapshot>(Snapshot{array.on(nullptr), *now});
  return now;
}

void setCaller(const Caller &given) { caller = given; }

LetGo::LetGo() : state_(caller.letGo ? caller.letGo() : nullptr) {}

LetGo::~LetGo() {
  if (state_)
    caller.takeBack(state_);
}

Result<Array> cast(const Array &array, DataType type) {
  if (array.type() == type)
    return array;
  static const Operator &op = *findOperator("cast");
  Attributes attributes;
  attributes.set("to", int64_t(type));
  auto result = dispatch(op, attributes, {&array, 1});
  if (!result.ok())
    return result.status();
  return std::move(result->front());
}

} // namespace tensmith::eager
