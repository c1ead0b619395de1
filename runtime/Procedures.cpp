// The machine that procedures run on.
//
// Activations lie on a stack of the machine's own, and their registers on another, both on the
// heap: how deep a program recurses is bounded by the session's limits and by memory, never by the
// host's stack. A tail call takes the place of its activation. A register that is read for the last
// time is emptied, so that a value lives no longer than it is needed, however long its function
// runs.
//
// Tensor code is in functions (Interpreter.cpp), of which the machine keeps one frame each: a
// function never comes back to a procedure, so one is enough. What it gives owns its memory.
#include "runtime/Interpreter.h"
#include "runtime/ModuleFormat.h"
#include "runtime/VerifyProcedures.h"

#include <algorithm>

namespace tensmith::runtime {
namespace {

struct Activation {
  const ProcedureCode *procedure;
  uint32_t position; // of the instruction to go on with
  uint32_t result;   // the caller's register
  size_t base;       // of its registers
};

class Machine {
public:
  explicit Machine(Run &run) : run_(run), frames_(program().functions.size()) {}

  Result<TensorRef> call(uint32_t procedure, std::vector<TensorRef> arguments) {
    arguments_ = std::move(arguments);
    if (Status status = enter(procedure, 0); !status.ok())
      return status;
    Status status = loop();
    if (status.ok())
      return std::move(returned_);
    return status.within(place());
  }

private:
  const Program &program() const { return run_.session.module().program(); }
  TensorRef &at(uint32_t index) { return registers_[base_ + index]; }

  /// The value of a register that an instruction reads, or null where it is empty.
  TensorRef read(uint32_t word) {
    TensorRef &value = at(word & ~kTake);
    return word & kTake ? std::exchange(value, TensorRef()) : value;
  }
  bool readAll(const uint32_t *words, uint32_t count, std::vector<TensorRef> &values) {
    bool whole = true;
    for (uint32_t i = 0; i < count; ++i) {
      values.push_back(read(words[i]));
      whole &= bool(values.back());
    }
    return whole;
  }

  static Status emptyRegister() { return invalidArgument("a register is read that holds nothing"); }

  /// Puts an activation with `arguments_` in its first registers on top.
  Status enter(uint32_t index, uint32_t result) {
    const ProcedureCode &procedure = program().procedures[index];
    if (int64_t(activations_.size()) >= run_.session.limits().depth)
      return {StatusCode::ResourceExhausted,
              "calls are nested deeper than the session's limit of " +
                  std::to_string(run_.session.limits().depth)};
    base_ = registers_.size();
    registers_.resize(base_ + procedure.registers);
    std::move(arguments_.begin(), arguments_.end(), registers_.begin() + ptrdiff_t(base_));
    arguments_.clear();
    activations_.push_back({&procedure, 0, result, base_});
    return {};
  }

  void leave() {
    registers_.resize(base_);
    activations_.pop_back();
    base_ = activations_.empty() ? 0 : activations_.back().base;
  }

  /// Calls what `arguments_` are for, in a new activation or in the place of this one.
  Status pass(uint32_t procedure, uint32_t result, bool tail) {
    if (tail) {
      result = activations_.back().result;
      leave();
    }
    return enter(procedure, result);
  }

  Status apply(uint32_t callee, const uint32_t *words, uint32_t count, uint32_t result, bool tail) {
    TensorRef function = read(callee);
    if (!function || function->kind() != TensorKind::Function)
      return invalidArgument("what is called is no function");
    if (function->tag() >= program().procedures.size() ||
        function->elements().size() + count != program().procedures[function->tag()].params)
      return invalidArgument("a function is called with " + std::to_string(count) +
                             " arguments, which is not what it takes");
    arguments_ = function->elements();
    if (!readAll(words, count, arguments_))
      return emptyRegister();
    return pass(function->tag(), result, tail);
  }

  Status invoke(const uint32_t *word, uint32_t count) {
    uint32_t index = word[1], results = word[2];
    auto &frame = frames_[index];
    if (!frame)
      frame = std::make_unique<Session::Lease>(run_.session, index);
    passed_.clear();
    for (uint32_t i = 0; i < count; ++i) {
      passed_.push_back({read(word[3 + results + i]), false});
      if (!passed_.back().tensor)
        return emptyRegister();
    }
    auto given = execute(run_, **frame, index, passed_, {}, {});
    if (!given)
      return given.status();
    (*frame)->clear();
    for (uint32_t i = 0; i < results; ++i)
      at(word[3 + i]) = std::move((*given)[i].tensor);
    return {};
  }

  Status constant(uint32_t result, uint32_t index) {
    const plan::ConstantTensor *constant = run_.session.module().plan().constants()->Get(index);
    Shape shape;
    for (uint32_t i = 0; constant->dims() && i < constant->dims()->size(); ++i)
      shape.push_back(constant->dims()->Get(i));
    // It may be handed out, and keeps the module's weights mapped then.
    auto *data =
        const_cast<std::byte *>(run_.session.module().weights().data()) + constant->offset();
    auto tensor = Tensor::on(DataType(constant->type()), shape, data, run_.session.modulePointer());
    if (!tensor)
      return tensor.status();
    at(result) = std::move(*tensor);
    return {};
  }

  Status construct(const uint32_t *word, uint32_t count) {
    std::vector<TensorRef> fields;
    fields.reserve(count);
    if (!readAll(word + 3, count, fields))
      return emptyRegister();
    at(word[2]) = Tensor::data(word[1], std::move(fields));
    return {};
  }

  Status field(const uint32_t *word) {
    TensorRef value = read(word[2]);
    if (!value || value->kind() != TensorKind::Data)
      return invalidArgument("a field is taken of what is no value of a data type");
    if (word[3] >= value->elements().size())
      return invalidArgument("a value has " + std::to_string(value->elements().size()) +
                             " fields where its constructor has more; build it as its type says");
    at(word[1]) = value->elements()[word[3]];
    return {};
  }

  Status choose(const uint32_t *word, uint32_t count, uint32_t &position) {
    TensorRef value = read(word[1]);
    if (!value || value->kind() != TensorKind::Data)
      return invalidArgument("a match is on what is no value of a data type");
    if (value->tag() >= count)
      return invalidArgument("a value has constructor " + std::to_string(value->tag()) +
                             ", and its type has " + std::to_string(count) +
                             "; build it as its type says");
    position = word[2 + value->tag()];
    return {};
  }

  Result<bool> truth(uint32_t word) {
    TensorRef value = read(word);
    if (!value || value->kind() != TensorKind::Tensor || value->type() != DataType::Bool ||
        value->size() != 1)
      return invalidArgument("a condition is not one boolean");
    return *value->data() != std::byte(0);
  }

  Status step(const uint32_t *word, uint32_t &position);
  Status loop();

  /// Where the program is, for a message.
  std::string_view place() const {
    if (activations_.empty())
      return {};
    Indices places = activations_.back().procedure->places;
    uint32_t text = kAbsent;
    for (size_t i = 0; i + 1 < places.size() && places[i] <= at_; i += 2)
      text = places[i + 1];
    return run_.session.module().location(text);
  }

  Run &run_;
  std::vector<TensorRef> registers_;
  std::vector<Activation> activations_;
  std::vector<TensorRef> arguments_; // on their way into an activation
  std::vector<Passed> passed_;
  std::vector<std::unique_ptr<Session::Lease>> frames_;
  TensorRef returned_;
  size_t base_ = 0;
  uint32_t at_ = 0; // the instruction in work
};

Status Machine::step(const uint32_t *word, uint32_t &position) {
  uint32_t count = word[0] >> 8;
  switch (plan::Code(word[0] & 0xff)) {
  case plan::Code::Move:
    at(word[1]) = read(word[2]);
    return {};
  case plan::Code::Constant:
    return constant(word[1], word[2]);
  case plan::Code::Invoke:
    return invoke(word, count);
  case plan::Code::Call:
    return readAll(word + 3, count, arguments_) ? pass(word[1], word[2], false) : emptyRegister();
  case plan::Code::TailCall:
    return readAll(word + 2, count, arguments_) ? pass(word[1], 0, true) : emptyRegister();
  case plan::Code::Closure: {
    std::vector<TensorRef> captured;
    if (!readAll(word + 3, count, captured))
      return emptyRegister();
    at(word[2]) = Tensor::function(word[1], std::move(captured));
    return {};
  }
  case plan::Code::Apply:
    return apply(word[2], word + 3, count, word[1], false);
  case plan::Code::TailApply:
    return apply(word[1], word + 2, count, 0, true);
  case plan::Code::Construct:
    return construct(word, count);
  case plan::Code::Field:
    return field(word);
  case plan::Code::Switch:
    return choose(word, count, position);
  case plan::Code::Branch: {
    auto holds = truth(word[1]);
    if (!holds)
      return holds.status();
    position = *holds ? position : word[2];
    return {};
  }
  case plan::Code::Jump:
    position = word[1];
    return {};
  case plan::Code::Return:
    break;
  }
  returned_ = read(word[1]);
  if (!returned_)
    return emptyRegister();
  uint32_t result = activations_.back().result;
  leave();
  if (!activations_.empty())
    at(result) = std::move(returned_);
  return {};
}

Status Machine::loop() {
  int64_t left = run_.session.limits().instructions;
  while (!activations_.empty()) {
    Activation &top = activations_.back();
    Indices code = top.procedure->code;
    at_ = top.position;
    uint32_t next = at_ + instructionLength(code.data(), uint32_t(code.size()), at_),
             position = next;
    top.position = next;
    size_t depth = activations_.size();
    if (left-- <= 0)
      return {StatusCode::ResourceExhausted,
              "the program ran for the session's limit of " +
                  std::to_string(run_.session.limits().instructions) + " instructions"};
    if (Status status = step(code.data() + at_, position); !status.ok())
      return status;
    if (position != next && activations_.size() == depth)
      activations_.back().position = position;
  }
  return {};
}

} // namespace

Status executeProcedure(Run &run, Frame &frame, const Step &step) {
  std::vector<TensorRef> arguments;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    auto operand = operandOf(run, frame, step, i);
    if (!operand)
      return operand.status();
    bool keep = (*operand)->ownsMemory();
    auto own = keep ? std::move(operand) : (*operand)->copy();
    if (!own)
      return own.status();
    arguments.push_back(std::move(*own));
  }
  auto returned = Machine(run).call(step.target, std::move(arguments));
  if (!returned)
    return returned.status();
  std::vector<Passed> results;
  if (step.results.size() == 1)
    results.push_back({*returned, false});
  else if ((*returned)->kind() == TensorKind::Data &&
           (*returned)->elements().size() == step.results.size())
    for (const TensorRef &field : (*returned)->elements())
      results.push_back({field, false});
  else
    return invalidArgument("the program returned " + describe(**returned) + " instead of " +
                           std::to_string(step.results.size()) + " values");
  return storeResults(frame, step, results);
}

} // namespace tensmith::runtime
