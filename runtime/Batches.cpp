// Calls of one function done as one.
//
// Where calls are forked that may come to a function with a batched version, the machine begins all
// of them, each as a fiber with stacks of its own. A fiber that is about to invoke such a function
// waits. When none can go on, the waiting calls of the function that most fibers wait for are done
// together: their operands become the rows of one tensor each, and the rows of the results are
// handed out. So a tree is computed level by level, and a list's elements all at once. Weights that
// the program is given are no rows: calls are only alike where they have them in common.
//
// It is an attempt. Whatever fails, the calls' fibers are let go of and the calls are done again
// one after the other, which comes to the same error, limit or place as without. Instructions are
// counted as if so from the start, and depth along the calls. A fiber gives way after some thousand
// instructions, so that one without end doesn't hide that another which can go on fails; what waits
// to be done together is only done when none can, and so not beside one without end, which ends at
// the run's limits. Parts of a large tree are batches of their own (BatchParts.cpp). The order
// depends on nothing but the program and its inputs: results are the same each time and for any
// number of threads.
#include "runtime/Batches.h"

#include "runtime/ModuleFormat.h"
#include "runtime/VerifyProcedures.h"

namespace tensmith::runtime {
namespace {

constexpr size_t kMostFibers = 4096; // beyond, calls are done in their caller's fiber
constexpr size_t kMostTogether = 1024;
constexpr size_t kCallsOfBlock = 8;

bool isApply(const uint32_t *word) { return plan::Code(word[0] & 0xff) == plan::Code::Apply; }

uint32_t lengthAt(const ProcedureCode &procedure, uint32_t position) {
  return instructionLength(procedure.code.data(), uint32_t(procedure.code.size()), position);
}

/// The instruction that the fiber's innermost activation goes on with.
const uint32_t *instructionOf(const Fiber &fiber) {
  const auto &top = fiber.activations.back();
  return top.procedure->code.data() + top.position;
}

Cell &cellOf(Fiber &fiber, uint32_t index) {
  return fiber.cells.data()[fiber.activations.back().base + index];
}

/// Of the invocation that the fiber waits for; null where it is no tensor.
Tensor *operandOf(Fiber &fiber, uint32_t operand) {
  const uint32_t *word = instructionOf(fiber);
  const Cell &cell = cellOf(fiber, word[3 + word[2] + operand] & ~kTake);
  bool tensor = cell.kind == Cell::Object && cell.object->kind() == TensorKind::Tensor;
  return tensor ? cell.object : nullptr;
}

} // namespace

void Fibers::clear() {
  if (live() > 0) { // something failed
    free.clear();
    for (auto &fiber : all) {
      fiber->cells.shrink(0);
      fiber->activations.clear();
      free.push_back(fiber.get());
    }
    runnable.clear();
    for (auto &list : waiting)
      list.clear();
  }
  for (Cell &cell : results)
    cell.clear();
  results.clear();
  pending = 0;
  forks = 0;
}

bool Machine::mayBatch(uint32_t count) const {
  const Program &all = program();
  const ProcedureCode &procedure = *activations_.back().procedure;
  if (!procedure.batches || run_.watch.any())
    return false;
  uint32_t several = 0;
  for (uint32_t i = 0, at = position_; i < count; ++i, at += lengthAt(procedure, at)) {
    const uint32_t *word = procedure.code.data() + at;
    several += isApply(word) ? all.closuresBatch : all.procedures[word[1]].batches;
  }
  return several > 1;
}

bool Machine::charge(int64_t instructions) {
  if (remaining() < instructions)
    return false;
  fuel_ -= instructions;
  if (fuel_ < 0) {
    left_ += fuel_;
    fuel_ = 0;
  }
  return true;
}

/// Of the fork's calls, from the next instruction on.
bool Machine::makeFibers(uint32_t count, Fiber *parent) {
  const ProcedureCode &procedure = *activations_.back().procedure;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t *word = code_ + position_;
    uint32_t result = parent ? word[isApply(word) ? 1 : 2] : i;
    if (!makeFiber(word, parent, result))
      return false;
    position_ += lengthAt(procedure, position_);
  }
  return charge(count);
}

/// Without a parent the registers are left as they are.
bool Machine::makeFiber(const uint32_t *word, Fiber *parent, uint32_t result) {
  uint32_t keep = parent ? 0xffffffff : ~kTake, index = word[1];
  TensorRef function;
  std::span<const TensorRef> captured;
  if (isApply(word)) {
    if (!readTensor(word[2] & keep, function) || function->kind() != TensorKind::Function)
      return false;
    index = function->tag();
    captured = function->elements();
  }
  uint32_t count = word[0] >> 8;
  if (index >= program().procedures.size() ||
      captured.size() + count != program().procedures[index].params)
    return false;
  const ProcedureCode &callee = program().procedures[index];
  Fiber *fiber = fibers_->take();
  fiber->parent = parent;
  fiber->result = result;
  fiber->pending = 0;
  fiber->alone = false;
  fiber->depth = depth_ + int64_t(activations_.size());
  if (fiber->depth >= run_.session.limits().depth || !fiber->cells.extend(callee.registers))
    return false;
  fiber->activations.push_back({&callee, 0, 0, 0});
  Cell *to = fiber->cells.data();
  for (const TensorRef &value : captured)
    *to++ = Cell::of(value);
  for (uint32_t i = 0; i < count; ++i)
    if (!readCell(word[3 + i] & keep, *to++))
      return false;
  fibers_->runnable.push_back(fiber);
  if (parent)
    ++parent->pending;
  else
    ++fibers_->pending;
  return true;
}

void Machine::exchange(Fiber &fiber) {
  cells_.swap(fiber.cells);
  activations_.swap(fiber.activations);
  std::swap(depth_, fiber.depth);
}

bool Machine::batch(uint32_t count) {
  if (!space_.fibers)
    space_.fibers = std::make_shared<Fibers>();
  fibers_ = space_.fibers.get();
  fibers_->waiting.resize(program().functions.size());
  fibers_->results.assign(count, Cell{});
  int64_t fuel = fuel_, left = left_;
  uint32_t begin = position_;
  bool good = makeFibers(count, nullptr);
  ++fibers_->forks;
  uint32_t end = position_;
  Fiber outer;
  exchange(outer);
  depth_ = outer.depth;
  good = good && runFibers();
  fiber_ = nullptr;
  exchange(outer);
  activations_.back().position = begin;
  resume();
  if (!good) {
    cancel(fibers_->parts);
    fibers_->clear();
    if (isCancelled())
      return fail({StatusCode::Internal, "the result is not needed any more"});
    failure_ = {};
    suspended_ = false;
    serial_ = true;
    fuel_ = fuel;
    left_ = left;
    return true;
  }
  const ProcedureCode &procedure = *activations_.back().procedure;
  for (uint32_t i = 0; i < count; ++i, position_ += lengthAt(procedure, position_)) {
    const uint32_t *word = code_ + position_;
    for (uint32_t j = isApply(word) ? 2 : 3; j < 3 + (word[0] >> 8); ++j)
      if (word[j] & kTake)
        at(word[j] & ~kTake).clear();
    at(word[isApply(word) ? 1 : 2]).assign(fibers_->results[i].take());
  }
  position_ = end;
  fibers_->clear();
  return true;
}

bool Machine::runFibers() {
  while (fibers_->pending > 0) {
    if (fibers_->runnable.empty()) {
      if (!(anyWaits() ? flush() : !fibers_->parts.empty() && takeParts()))
        return false;
      continue;
    }
    Fiber *next = fibers_->runnable.back();
    fibers_->runnable.pop_back();
    if (!runFiber(*next))
      return false;
  }
  return true;
}

bool Machine::runFiber(Fiber &fiber) {
  fiber_ = &fiber;
  suspended_ = false;
  exchange(fiber);
  resume();
  bool done = loop();
  exchange(fiber);
  if (!done)
    return suspended_;
  Cell value = returned_.take();
  Fiber *parent = fiber.parent;
  fibers_->free.push_back(&fiber);
  deliver(parent, fiber.result, value);
  return true;
}

void Machine::deliver(Fiber *parent, uint32_t result, Cell value) {
  if (!parent) {
    fibers_->results[result] = value;
    --fibers_->pending;
    return;
  }
  cellOf(*parent, result).assign(value);
  if (--parent->pending == 0)
    fibers_->runnable.push_back(parent);
}

bool Machine::suspend(uint32_t position) {
  activations_.back().position = position;
  suspended_ = true;
  return false;
}

bool Machine::preempt() {
  if (isCancelled())
    return false;
  fibers_->runnable.push_front(fiber_);
  return suspend(position_);
}

bool Machine::forkFibers(uint32_t count) {
  if (fibers_->live() + count > kMostFibers)
    return true;
  if (!makeFibers(count, fiber_))
    return false;
  giveAway();
  return suspend(position_);
}

/// Whether the fiber in work waits for others before it invokes the function.
bool Machine::waitForOthers(const uint32_t *word) {
  if (std::exchange(fiber_->alone, false) || program().functions[word[1]].batched == 0)
    return false;
  ++fuel_; // it comes here again, or is counted with the others
  fibers_->waiting[word[1]].push_back(fiber_);
  suspend(position_);
  return true;
}

bool Machine::anyWaits() const {
  return std::any_of(fibers_->waiting.begin(), fibers_->waiting.end(),
                     [](const auto &calls) { return !calls.empty(); });
}

bool Machine::flush() {
  auto &waiting = fibers_->waiting;
  auto most = std::max_element(waiting.begin(), waiting.end(),
                               [](const auto &a, const auto &b) { return a.size() < b.size(); });
  std::vector<Fiber *> calls = takeAlike(uint32_t(most - waiting.begin()), *most);
  if (calls.size() > 1)
    return invokeTogether(uint32_t(most - waiting.begin()), calls);
  calls[0]->alone = true;
  fibers_->runnable.push_back(calls[0]);
  return true;
}

/// Whether the operand is no row of the batched version's, but the same for all calls.
bool Machine::isShared(uint32_t index, uint32_t operand, const Tensor &value) const {
  const FunctionCode &several = program().functions[program().functions[index].batched];
  return several.values[several.params[operand]].dims.size() == value.shape().size() &&
         value.shape()[0] != 1;
}

/// The last of the calls, and those whose operands are of the same types and shapes.
std::vector<Fiber *> Machine::takeAlike(uint32_t index, std::vector<Fiber *> &all) {
  const FunctionCode &one = program().functions[index];
  std::vector<Fiber *> calls = {all.back()}, others;
  all.pop_back();
  auto alike = [&](Fiber *fiber) {
    for (uint32_t i = 0; i < one.params.size(); ++i) {
      const Tensor *a = operandOf(*calls[0], i), *b = operandOf(*fiber, i);
      bool row = a && b && (one.values[one.params[i]].dims.size() == a->shape().size());
      if (!row || a->type() != b->type() || a->shape() != b->shape() ||
          (isShared(index, i, *a) && a->data() != b->data()))
        return false;
    }
    return true;
  };
  while (!all.empty() && calls.size() < kMostTogether) {
    (alike(all.back()) ? calls : others).push_back(all.back());
    all.pop_back();
  }
  all.insert(all.end(), others.rbegin(), others.rend());
  return calls;
}

/// One operand of calls that are alike as one tensor.
Result<TensorRef> Machine::gather(std::span<Fiber *const> calls, uint32_t operand, bool inFront) {
  const Tensor *first = operandOf(*calls[0], operand);
  Shape shape = first->shape();
  if (inFront)
    shape.insert(shape.begin(), 1);
  if (shape.empty() || shape[0] != 1 || first->type() == DataType::String)
    return invalidArgument("a call's operand is no row");
  shape[0] = int64_t(calls.size());
  auto rows = Tensor::create(first->type(), shape);
  auto bytes = size_t(first->bytes());
  for (size_t i = 0; rows && bytes && i < calls.size(); ++i)
    std::memcpy((*rows)->data() + i * bytes, operandOf(*calls[i], operand)->data(), bytes);
  return rows;
}

/// The rows of a few calls at a time lie in one block, which stays for as long as one of them does.
bool Machine::scatter(std::span<Fiber *const> calls, uint32_t result, const Tensor &rows,
                      bool inFront) {
  if (rows.shape().empty() || rows.shape()[0] != int64_t(calls.size()) ||
      rows.type() == DataType::String)
    return false;
  Shape shape = rows.shape();
  shape[0] = 1;
  if (inFront)
    shape.erase(shape.begin());
  size_t bytes = size_t(rows.bytes()) / calls.size();
  TensorRef own[kCallsOfBlock];
  for (size_t first = 0; first < calls.size(); first += kCallsOfBlock) {
    size_t count = std::min(kCallsOfBlock, calls.size() - first);
    if (!Tensor::createTogether(rows.type(), shape, {own, count}).ok())
      return false;
    if (bytes)
      for (size_t i = 0; i < count; ++i)
        std::memcpy(own[i]->data(), rows.data() + (first + i) * bytes, bytes);
    for (size_t i = 0; i < count; ++i) {
      Fiber &fiber = *calls[first + i];
      cellOf(fiber, instructionOf(fiber)[3 + result]).assign(Cell::of(std::move(own[i])));
    }
  }
  return true;
}

bool Machine::invokeTogether(uint32_t index, std::span<Fiber *const> calls) {
  const FunctionCode &one = program().functions[index];
  const FunctionCode &several = program().functions[one.batched];
  auto inFront = [&](Indices a, Indices b, size_t i) {
    return several.values[b[i]].dims.size() > one.values[a[i]].dims.size();
  };
  auto &passed = fibers_->passed;
  passed.clear();
  for (uint32_t i = 0; i < one.params.size(); ++i) {
    if (Tensor *first = operandOf(*calls[0], i); isShared(index, i, *first)) {
      passed.push_back({TensorRef::retain(first), false, false});
      continue;
    }
    auto rows = gather(calls, i, inFront(one.params, several.params, i));
    if (!rows)
      return false;
    passed.push_back({std::move(*rows), false, true});
  }
  for (Fiber *fiber : calls) {
    const uint32_t *word = instructionOf(*fiber);
    for (uint32_t i = 0; i < word[0] >> 8; ++i)
      if (uint32_t operand = word[3 + word[2] + i]; operand & kTake)
        cellOf(*fiber, operand & ~kTake).clear();
  }
  auto &frame = space_.frames[one.batched];
  if (!frame)
    frame = run_.session.makeFrame(one.batched);
  auto given = execute(run_, *frame, one.batched, passed, {}, {});
  passed.clear();
  frame->clear();
  if (!given || !charge(int64_t(calls.size())))
    return false;
  for (uint32_t i = 0; i < one.results.size(); ++i)
    if (!scatter(calls, i, *(*given)[i].tensor, inFront(one.results, several.results, i)))
      return false;
  for (Fiber *fiber : calls) {
    auto &top = fiber->activations.back();
    top.position += lengthAt(*top.procedure, top.position);
    fibers_->runnable.push_back(fiber);
  }
  return true;
}

} // namespace tensmith::runtime
