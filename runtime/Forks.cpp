// Calls that run side by side.
//
// A fork says that the calls behind it use no result of one another. A machine does them one after
// the other, as it would without, but remembers that there are some to come. Now and then, when it
// has worked for a while and other threads have nothing to do, it hands out the oldest call that it
// has not begun: the one with the most work behind it, as a rule. So a fork costs next to nothing,
// and what handing out costs is a small part of the work in between (Acar, Chargueraud, Guatto,
// Rainey and Sieczkowski, "Heartbeat scheduling: provable efficiency for nested parallelism",
// 2018). When the machine comes to a call that was handed out, it takes it back if nobody has begun
// it; else it waits, and does other calls of the run meanwhile.
//
// Nothing of this can be seen from outside. A call's result does not depend on who computes it. The
// depth of activations is counted along the calls, whichever thread they are on; instructions are
// added up where the calls are joined, in the program's order. A call that fails elsewhere is
// done again in its place, with nothing handed out any more, and fails there as it would have
// without. That no wait is in a circle: a call waits for calls that began after it, and what lies
// below it on a thread's stack began before it.
#include "runtime/Batches.h"

#include "runtime/ModuleFormat.h"
#include "runtime/VerifyProcedures.h"

namespace tensmith::runtime {
namespace {

constexpr uint32_t kBeat = 64;   // forks, or a few kernels, between two calls handed out
constexpr int kMostHelping = 32; // calls that wait on one thread's stack
thread_local int helping = 0;

/// Of a call: where its arguments' words begin, and how many there are.
std::span<const uint32_t> argumentsOf(const uint32_t *word) { return {word + 3, word[0] >> 8}; }

} // namespace

bool Machine::isCancelled() const {
  for (const ForkTask *task = task_; task; task = task->parent)
    if (task->cancelled.load(std::memory_order_relaxed))
      return true;
  return false;
}

void Machine::fork(uint32_t count) {
  const Activation &top = activations_.back();
  Indices code = top.procedure->code;
  uint32_t begin = position_, next = 0, end = begin;
  for (uint32_t i = 0; i < count; ++i) {
    end += instructionLength(code.data(), uint32_t(code.size()), end);
    next = i == 0 ? end : next;
  }
  dropForks(activations_.size() - 1);
  forks_.push_back({activations_.size() - 1, begin, next, end});
  if (++beat_ >= kBeat)
    handOut();
}

/// The next call of the fork that has not begun, if there is one.
bool Machine::findPending(Fork &fork, uint32_t &position) {
  const Activation &activation = activations_[fork.activation];
  bool top = fork.activation + 1 == activations_.size();
  uint32_t now = top ? position_ : activation.position;
  if (now < fork.begin)
    return false;
  position = std::max(fork.next, now);
  return position < fork.end;
}

void Machine::handOut() {
  beat_ = 0;
  ThreadPool &pool = run_.session.pool();
  if (!pool.hungry())
    return;
  for (uint32_t position; firstFork_ < forks_.size(); ++firstFork_) {
    Fork &fork = forks_[firstFork_];
    if (!findPending(fork, position))
      continue;
    Indices code = activations_[fork.activation].procedure->code;
    fork.next = position + instructionLength(code.data(), uint32_t(code.size()), position);
    if (auto task = makeTask(fork, position)) {
      tasks_.push_back(std::move(task));
      tasks_.back()->offered = pool.offer(*tasks_.back());
      if (!tasks_.back()->offered)
        tasks_.pop_back();
      pool.wake();
    }
    return;
  }
}

std::unique_ptr<ForkTask> Machine::newTask() {
  auto task = std::make_unique<ForkTask>();
  task->body = [](ThreadPool::Task &self) {
    auto &task = static_cast<ForkTask &>(self);
    ResourceScope resources(task.resources);
    try {
      Machine(*task.run, &task).runTask();
    } catch (const std::bad_alloc &) { // it is not good, and done again where it came from
    }
  };
  task->owner = task->run = &run_;
  task->parent = task_;
  task->resources = currentResources();
  task->within = within();
  return task;
}

bool Machine::addArgument(ForkTask &task, const Cell &cell) {
  if (cell.kind == Cell::Empty)
    return false;
  auto value = cell.isScalar() ? Tensor::scalar(elementType(cell.type()), &cell.scalar)
                               : Result<TensorRef>(TensorRef::retain(cell.object));
  if (!value)
    return false;
  task.arguments.push_back(std::move(*value));
  return true;
}

std::unique_ptr<ForkTask> Machine::makeTask(const Fork &fork, uint32_t position) {
  const Activation &activation = activations_[fork.activation];
  const uint32_t *word = activation.procedure->code.data() + position;
  const Cell *cells = cells_.data() + activation.base;
  auto task = newTask();
  task->procedure = word[1];
  if (plan::Code(word[0] & 0xff) == plan::Code::Apply) {
    const Cell &function = cells[word[2] & ~kTake];
    if (function.kind != Cell::Object || function.object->kind() != TensorKind::Function)
      return nullptr;
    task->procedure = function.object->tag();
    auto captured = function.object->elements();
    task->arguments.assign(captured.begin(), captured.end());
  }
  for (uint32_t argument : argumentsOf(word))
    if (!addArgument(*task, cells[argument & ~kTake]))
      return nullptr;
  if (task->procedure >= program().procedures.size() ||
      task->arguments.size() != program().procedures[task->procedure].params)
    return nullptr;
  task->activation = fork.activation;
  task->position = position;
  task->depth = depth_ + int64_t(fork.activation) + 1;
  return task;
}

void Machine::runTask() {
  task_->good = enter(task_->procedure, task_->arguments, nullptr, 0, 0) && loop();
  task_->value = returned_.take();
  task_->instructions = run_.session.limits().instructions - remaining();
}

/// Whether the task came to its end, and not only this machine.
bool Machine::await(ForkTask &task) {
  ThreadPool::Waiting waiting(run_.session.pool());
  ++helping;
  while (!task.done.load(std::memory_order_acquire) && !isCancelled())
    waiting.pass(&run_, helping < kMostHelping);
  --helping;
  return task.done.load(std::memory_order_acquire);
}

bool Machine::join(uint32_t result, bool &begin) {
  auto found = std::find_if(tasks_.rbegin(), tasks_.rend(), [&](const auto &task) {
    return task->activation + 1 == activations_.size() && task->position == at_;
  });
  if (found == tasks_.rend())
    return true;
  std::unique_ptr<ForkTask> task = std::move(*found);
  tasks_.erase(std::next(found).base());
  if (run_.session.pool().takeBack(*task))
    return true;
  if (!await(*task)) {
    tasks_.push_back(std::move(task)); // for cancelTasks
    begin = false;
    return fail({StatusCode::Internal, "the result is not needed any more"});
  }
  if (!task->good || task->instructions > remaining()) {
    // In a task it is enough to know that it fails: all of it will be done again.
    serial_ = true;
    begin = !task_;
    return begin || fail({StatusCode::Internal, "a call of it failed"});
  }
  left_ -= task->instructions;
  if (left_ < 0) {
    fuel_ += left_;
    left_ = 0;
  }
  const uint32_t *word = code_ + at_;
  uint32_t first = plan::Code(word[0] & 0xff) == plan::Code::Apply ? 2 : 3;
  for (uint32_t i = first; i < 3 + (word[0] >> 8); ++i)
    if (word[i] & kTake)
      at(word[i] & ~kTake).clear();
  at(result).assign(task->value.take());
  begin = false;
  return true;
}

void Machine::cancelTasks() {
  cancel(tasks_);
  if (fibers_)
    cancel(fibers_->parts);
}

void Machine::cancel(std::vector<std::unique_ptr<ForkTask>> &tasks) {
  for (auto &task : tasks)
    task->cancelled.store(true, std::memory_order_relaxed);
  for (auto &task : tasks) {
    if (!task->offered || run_.session.pool().takeBack(*task))
      continue;
    ThreadPool::Waiting waiting(run_.session.pool());
    while (!task->done.load(std::memory_order_acquire))
      waiting.pass(&run_, false);
  }
  tasks.clear();
}

} // namespace tensmith::runtime
