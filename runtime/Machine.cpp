// The loop over a procedure's instructions; see Machine.h and the codes in plan.fbs.
#include "runtime/Machine.h"

#include "runtime/Batches.h"
#include "runtime/Device.h"

#include "runtime/ModuleFormat.h"

#include <algorithm>

namespace tensmith::runtime {
namespace {

constexpr int64_t kFuel = 4096;
constexpr uint32_t kBeatsOfInvoke = 16;
constexpr size_t kMostFibersKept = 1024;

const char *nameOf(plan::ScalarType type) { return name(elementType(type)).data(); }

} // namespace

Machine::Machine(Run &run, ForkTask *task)
    : run_(run), space_(run.session.takeSpace()), left_(run.session.limits().instructions),
      task_(task), depth_(task ? task->depth : 0),
      parallel_(run.session.pool().threads() > 1 && !run.profile && !run.watch.any()) {}

Machine::~Machine() {
  cancelTasks();
  if (fibers_)
    fibers_->clear();
  if (fibers_ && fibers_->all.size() > kMostFibersKept)
    space_.fibers.reset();
  run_.session.giveBack(std::move(space_));
}

Result<TensorRef> Machine::call(uint32_t procedure, std::span<const TensorRef> arguments) {
  bool done = enter(procedure, arguments, nullptr, 0, 0) && loop();
  TensorRef value;
  base_ = &returned_;
  if (done && readTensor(kTake, value)) // of register 0, which is empty then
    return value;
  return failure_.within(place());
}

// ---- reading registers ----

bool Machine::fail(Status status) {
  failure_ = std::move(status);
  return false;
}

bool Machine::failEmpty() { return fail(invalidArgument("a register is read that holds nothing")); }

bool Machine::readCell(uint32_t word, Cell &value) {
  Cell &cell = at(word & ~kTake);
  value = word & kTake ? cell.take() : cell.copy();
  return value.kind != Cell::Empty || failEmpty();
}

bool Machine::readTensor(uint32_t word, TensorRef &value) {
  Cell cell;
  if (!readCell(word, cell))
    return false;
  if (!cell.isScalar()) {
    value = TensorRef(cell.object);
    return true;
  }
  auto tensor = Tensor::scalar(elementType(cell.type()), &cell.scalar);
  if (!tensor)
    return fail(tensor.status());
  value = std::move(*tensor);
  return true;
}

/// A tensor is replaced by its element, which is likely to be asked for again.
inline bool Machine::readScalar(uint32_t word, plan::ScalarType type, Scalar &value) {
  Cell &cell = at(word & ~kTake);
  if (cell.isScalar(type)) [[likely]] {
    value = cell.scalar;
    return true;
  }
  if (cell.kind == Cell::Empty)
    return failEmpty();
  if (cell.kind != Cell::Object)
    return fail(invalidArgument(std::string("expected a scalar of type ") + nameOf(type) +
                                ", found one of type " + nameOf(cell.type())));
  const Tensor &tensor = *cell.object;
  if (tensor.kind() != TensorKind::Tensor || tensor.type() != elementType(type) ||
      !tensor.shape().empty() || tensor.device())
    return fail(
        invalidArgument(std::string("expected ") + nameOf(type) + "[], found " + describe(tensor)));
  value.bits = 0;
  std::memcpy(&value, tensor.data(), size_t(byteSize(tensor.type())));
  if (type == plan::ScalarType::Bool)
    value.boolean = *tensor.data() != std::byte(0);
  cell.assign(Cell::of(type, value));
  return true;
}

// ---- activations ----

void Machine::resume() {
  const Activation &top = activations_.back();
  code_ = top.procedure->code.data();
  position_ = top.position;
  base_ = cells_.data() + top.base;
}

inline bool Machine::pass(std::span<const TensorRef> captured, const uint32_t *words,
                          uint32_t count, Cell *to) {
  for (const TensorRef &value : captured)
    *to++ = Cell::of(value);
  for (uint32_t i = 0; i < count; ++i, ++to)
    if (!readCell(words[i], *to))
      return false;
  return true;
}

bool Machine::enter(uint32_t index, std::span<const TensorRef> captured, const uint32_t *words,
                    uint32_t count, uint32_t result) {
  const ProcedureCode &procedure = program().procedures[index];
  int64_t limit = run_.session.limits().depth;
  if (int64_t(activations_.size()) + depth_ >= limit)
    return fail({StatusCode::ResourceExhausted,
                 "calls are nested deeper than the session's limit of " + std::to_string(limit)});
  size_t base = cells_.size();
  if (!cells_.extend(procedure.registers))
    return fail(
        {StatusCode::ResourceExhausted,
         "there is not enough memory for the calls, or the session's limit does not allow it"});
  if (!activations_.empty()) {
    base_ = cells_.data() + activations_.back().base;
    activations_.back().position = position_;
  }
  if (!pass(captured, words, count, cells_.data() + base))
    return false;
  activations_.push_back({&procedure, 0, result, base});
  resume();
  return true;
}

bool Machine::replace(uint32_t index, std::span<const TensorRef> captured, const uint32_t *words,
                      uint32_t count) {
  const ProcedureCode &procedure = program().procedures[index];
  Activation &top = activations_.back();
  size_t end = cells_.size();
  if (!cells_.extend(procedure.params))
    return fail(
        {StatusCode::ResourceExhausted,
         "there is not enough memory for the calls, or the session's limit does not allow it"});
  base_ = cells_.data() + top.base;
  if (!pass(captured, words, count, cells_.data() + end))
    return false;
  cells_.moveDown(end, top.base);
  dropForks(activations_.size() - 1);
  if (!cells_.extend(procedure.registers - procedure.params))
    return fail(
        {StatusCode::ResourceExhausted,
         "there is not enough memory for the calls, or the session's limit does not allow it"});
  top.procedure = &procedure;
  top.position = 0;
  resume();
  return true;
}

bool Machine::apply(uint32_t callee, const uint32_t *words, uint32_t count, uint32_t result,
                    bool tail) {
  TensorRef function;
  if (!readTensor(callee, function))
    return false;
  if (function->kind() != TensorKind::Function)
    return fail(invalidArgument("what is called is no function"));
  uint32_t index = function->tag();
  if (index >= program().procedures.size() ||
      function->elements().size() + count != program().procedures[index].params)
    return fail(invalidArgument("a function is called with " + std::to_string(count) +
                                " arguments, which is not what it takes"));
  return tail ? replace(index, function->elements(), words, count)
              : enter(index, function->elements(), words, count, result);
}

bool Machine::returnFrom(uint32_t word) {
  Cell value;
  if (!readCell(word, value))
    return false;
  uint32_t result = activations_.back().result;
  cells_.shrink(activations_.back().base);
  activations_.pop_back();
  dropForks(activations_.size());
  if (activations_.empty()) {
    returned_.assign(value);
    return true;
  }
  resume();
  at(result).assign(value);
  return true;
}

// ---- instructions ----

bool Machine::invoke(const uint32_t *word, uint32_t count) {
  uint32_t index = word[1], results = word[2];
  auto &frame = space_.frames[index];
  if (!frame)
    frame = run_.session.makeFrame(index);
  beat_ += kBeatsOfInvoke;
  passed_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    passed_[i].last = true;
    if (!readTensor(word[3 + results + i], passed_[i].tensor))
      return false;
  }
  auto given = execute(run_, *frame, index, passed_, {}, {});
  passed_.clear();
  if (!given)
    return fail(given.status());
  frame->clear();
  for (uint32_t i = 0; i < results; ++i)
    at(word[3 + i]).assign(Cell::of(std::move((*given)[i].tensor)));
  return true;
}

bool Machine::constant(uint32_t result, uint32_t index) {
  const auto *all = run_.session.module().plan().constants();
  constants_.resize(all->size());
  if (!constants_[index]) {
    const plan::ConstantTensor *constant = all->Get(index);
    Shape shape;
    for (uint32_t i = 0; constant->dims() && i < constant->dims()->size(); ++i)
      shape.push_back(constant->dims()->Get(i));
    // It may be handed out, and keeps the module's weights mapped then.
    bool isDevices =
        run_.session.hasDevices() && !isSingleNumber(DataType(constant->type()), shape.size());
    uint8_t memory = isDevices ? 1 : 0;
    auto tensor = Tensor::on(DataType(constant->type()), shape,
                             run_.session.weights(memory) + constant->offset(),
                             run_.session.weightsOwner(memory));
    if (!tensor)
      return fail(tensor.status());
    if (isDevices)
      (*tensor)->setDevice(&run_.session.device(memory));
    constants_[index] = std::move(*tensor);
  }
  at(result).assign(Cell::of(constants_[index]));
  return true;
}

bool Machine::construct(const uint32_t *word, uint32_t count, uint32_t tag, TensorKind kind) {
  TensorRef value = Tensor::unfilled(kind, tag, count);
  if (!value)
    return fail({StatusCode::ResourceExhausted, "there is not enough memory for a value"});
  for (uint32_t i = 0; i < count; ++i)
    if (!readTensor(word[3 + i], value->fill()[i]))
      return false;
  at(word[2]).assign(Cell::of(std::move(value)));
  return true;
}

bool Machine::field(const uint32_t *word) {
  const Cell &cell = at(word[2] & ~kTake);
  if (cell.kind == Cell::Empty)
    return failEmpty();
  if (cell.kind != Cell::Object || cell.object->kind() != TensorKind::Data)
    return fail(invalidArgument("a field is taken of what is no value of a data type"));
  auto elements = cell.object->elements();
  if (word[3] >= elements.size())
    return fail(
        invalidArgument("a value has " + std::to_string(elements.size()) +
                        " fields where its constructor has more; build it as its type says"));
  Cell value = Cell::of(elements[word[3]]);
  if (word[2] & kTake)
    at(word[2] & ~kTake).clear();
  at(word[1]).assign(value);
  return true;
}

bool Machine::reference(const uint32_t *word) {
  TensorRef value;
  if (!readTensor(word[2], value))
    return false;
  TensorRef made = run_.references.make(std::move(value));
  if (!made)
    return fail({StatusCode::ResourceExhausted, "there is not enough memory for a reference"});
  at(word[1]).assign(Cell::of(std::move(made)));
  return true;
}

bool Machine::referenceIn(uint32_t word, TensorRef &value) {
  if (!readTensor(word, value))
    return false;
  return value->kind() == TensorKind::Reference ||
         fail(invalidArgument("what is read or written as a reference is none"));
}

bool Machine::readReference(const uint32_t *word) {
  TensorRef from;
  if (!referenceIn(word[2], from))
    return false;
  at(word[1]).assign(Cell::of(run_.references.read(*from)));
  return true;
}

bool Machine::writeReference(const uint32_t *word) {
  TensorRef to, value;
  if (!referenceIn(word[1], to) || !readTensor(word[2], value))
    return false;
  TensorRef before = run_.references.write(*to, std::move(value));
  return true;
}

bool Machine::choose(const uint32_t *word, uint32_t count) {
  Cell &cell = at(word[1] & ~kTake);
  if (cell.kind == Cell::Empty)
    return failEmpty();
  if (cell.kind != Cell::Object || cell.object->kind() != TensorKind::Data)
    return fail(invalidArgument("a match is on what is no value of a data type"));
  uint32_t tag = cell.object->tag();
  if (tag >= count)
    return fail(invalidArgument("a value has constructor " + std::to_string(tag) +
                                ", and its type has " + std::to_string(count) +
                                "; build it as its type says"));
  if (word[1] & kTake)
    cell.clear();
  position_ = word[2 + tag];
  return true;
}

bool Machine::branch(const uint32_t *word) {
  const Cell &cell = at(word[1] & ~kTake);
  bool holds;
  if (cell.isScalar(plan::ScalarType::Bool)) {
    holds = cell.scalar.boolean;
  } else {
    TensorRef value;
    if (!readTensor(word[1] & ~kTake, value))
      return false;
    if (value->kind() != TensorKind::Tensor || value->type() != DataType::Bool ||
        value->size() != 1 || value->device())
      return fail(invalidArgument("a condition is not one boolean"));
    holds = *value->data() != std::byte(0);
  }
  if (word[1] & kTake)
    at(word[1] & ~kTake).clear();
  position_ = holds ? position_ + 3 : word[2];
  return true;
}

bool Machine::scalar(const uint32_t *word, uint32_t count) {
  const ScalarCode &code = scalarCode(word[1]);
  auto type = plan::ScalarType(word[1] >> 8);
  bool where = count == 3;
  Scalar operands[3];
  for (uint32_t i = 0; i < count; ++i)
    if (!readScalar(word[3 + i], where && i == 0 ? plan::ScalarType::Bool : type, operands[i]))
      return false;
  at(word[2]).assign(Cell::of(code.result, code.function(operands)));
  return true;
}

void Machine::endMeasure() {
  if (!measured_)
    return;
  ++measured_->count;
  measured_->nanoseconds += std::chrono::nanoseconds(Clock::now() - begun_).count();
  measured_ = nullptr;
}

bool Machine::measure() {
  endMeasure();
  if (left_ <= 0 || --quantum_ <= 0) {
    quantum_ = kFuel;
    bool goesOn = refuel();
    left_ += std::exchange(fuel_, 0);
    if (!goesOn)
      return false;
  }
  fuel_ = 1;
  --left_;
  auto procedure = size_t(activations_.back().procedure - program().procedures.data());
  if (procedure < run_.profile->procedures.size())
    measured_ = &run_.profile->procedures[procedure][position_];
  begun_ = Clock::now();
  return true;
}

bool Machine::refuel() {
  if (isCancelled())
    return fail({StatusCode::Internal, "the result is not needed any more"});
  if (Status status = checkTime(); !status.ok())
    return fail(std::move(status));
  if (left_ <= 0)
    return fail({StatusCode::ResourceExhausted,
                 "the program ran for the session's limit of " +
                     std::to_string(run_.session.limits().instructions) + " instructions"});
  fuel_ = std::min(left_, kFuel);
  left_ -= fuel_;
  // One that has no end must not keep others that can go on from failing.
  return !fiber_ || preempt();
}

bool Machine::loop() {
  bool good = true;
  while (good && !activations_.empty()) {
    if (fuel_ == 0 && !(run_.profile ? measure() : refuel()))
      return false;
    --fuel_;
    const uint32_t *word = code_ + position_;
    uint32_t count = word[0] >> 8;
    at_ = position_;
    switch (plan::Code(word[0] & 0xff)) {
    case plan::Code::Move: {
      Cell value;
      if ((good = readCell(word[2], value)))
        at(word[1]).assign(value);
      position_ += 3;
      break;
    }
    case plan::Code::Constant:
      position_ += 3;
      good = constant(word[1], word[2]);
      break;
    case plan::Code::Immediate: {
      Scalar value;
      value.bits = uint64_t(word[4]) << 32 | word[3];
      at(word[1]).assign(Cell::of(plan::ScalarType(word[2]), value));
      position_ += 5;
      break;
    }
    case plan::Code::Scalar:
      position_ += 3 + count;
      good = scalar(word, count);
      break;
    case plan::Code::Invoke:
      if (fiber_ && waitForOthers(word)) {
        good = false;
        break;
      }
      position_ += 3 + word[2] + count;
      good = invoke(word, count);
      break;
    case plan::Code::Fork:
      position_ += 1;
      if (!serial_ && mayBatch(count))
        good = fiber_ ? forkFibers(count) : batch(count);
      else if (mayFork())
        fork(count);
      break;
    case plan::Code::Call: {
      position_ += 3 + count;
      bool begin = true;
      if (!tasks_.empty() && !fiber_)
        good = join(word[2], begin);
      if (begin)
        good = enter(word[1], {}, word + 3, count, word[2]);
      break;
    }
    case plan::Code::TailCall:
      good = replace(word[1], {}, word + 2, count);
      break;
    case plan::Code::Closure:
      position_ += 3 + count;
      good = construct(word, count, word[1], TensorKind::Function);
      break;
    case plan::Code::Apply: {
      position_ += 3 + count;
      bool begin = true;
      if (!tasks_.empty() && !fiber_)
        good = join(word[1], begin);
      if (begin)
        good = apply(word[2], word + 3, count, word[1], false);
      break;
    }
    case plan::Code::TailApply:
      good = apply(word[1], word + 2, count, 0, true);
      break;
    case plan::Code::Construct:
      position_ += 3 + count;
      good = construct(word, count, word[1], TensorKind::Data);
      break;
    case plan::Code::Field:
      position_ += 4;
      good = field(word);
      break;
    case plan::Code::Reference:
      position_ += 3;
      good = reference(word);
      break;
    case plan::Code::Read:
      position_ += 3;
      good = readReference(word);
      break;
    case plan::Code::Write:
      position_ += 3;
      good = writeReference(word);
      break;
    case plan::Code::Switch:
      good = choose(word, count);
      break;
    case plan::Code::Branch:
      good = branch(word);
      break;
    case plan::Code::Jump:
      position_ = word[1];
      break;
    case plan::Code::Return:
      good = returnFrom(word[1]);
      break;
    }
  }
  endMeasure();
  return good;
}

/// The places are few: one for each of the program's own lines.
std::string_view Machine::place() const {
  if (activations_.empty())
    return {};
  Indices places = activations_.back().procedure->places;
  uint32_t text = kAbsent;
  for (size_t i = 0; i + 1 < places.size() && places[i] <= at_; i += 2)
    text = places[i + 1];
  return run_.session.module().location(text);
}

} // namespace tensmith::runtime
