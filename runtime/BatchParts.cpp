// Parts of a batch that are done by themselves.
//
// What is done together (Batches.cpp) is one thread's work between the kernels. So now and then the
// oldest call that has not begun is given away, with all the calls that it leads to: a batch of its
// own, which another thread may do. It is most of a tree's other half, as a rule, and has calls
// enough to be done together. The parts' results are taken when nothing else is left to do, those
// that nobody has begun done then.
//
// Which calls are given away, and when their results are taken, depends on nothing but the
// program and its inputs. So the same calls are done together whoever does them, and results are
// the same for any number of threads.
#include "runtime/Batches.h"

namespace tensmith::runtime {
namespace {

constexpr uint32_t kForksOfPart = 64; // between two calls that are given away
/// Calls that are about to be done, beyond which none is given away: where there are that many, as
/// of a list's elements, the oldest leads to little.
constexpr size_t kFewRunnable = 16;
constexpr int kMostWithin = 16; // parts of parts: each may lie on the stack of the one around it

bool hasBegun(const Fiber &fiber) {
  return fiber.activations.size() != 1 || fiber.activations[0].position != 0;
}

} // namespace

void Machine::giveAway() {
  uint32_t forks = ++fibers_->forks;
  if (parallel_ && forks == kForksOfPart / 4)
    run_.session.pool().wake();
  auto &runnable = fibers_->runnable;
  if (forks % kForksOfPart != 0 || runnable.empty() || runnable.size() > kFewRunnable ||
      within() >= kMostWithin || hasBegun(*runnable.front()))
    return;
  Fiber &fiber = *runnable.front();
  auto task = makePart(fiber);
  if (!task)
    return;
  fibers_->parts.push_back(std::move(task));
  runnable.pop_front();
  fiber.cells.shrink(0);
  fiber.activations.clear();
  fibers_->free.push_back(&fiber);
  ThreadPool &pool = run_.session.pool();
  fibers_->parts.back()->offered = parallel_ && pool.offer(*fibers_->parts.back());
  if (fibers_->parts.back()->offered)
    pool.wake();
}

std::unique_ptr<ForkTask> Machine::makePart(Fiber &fiber) {
  const ProcedureCode &procedure = *fiber.activations[0].procedure;
  auto task = newTask();
  task->procedure = uint32_t(&procedure - program().procedures.data());
  task->depth = fiber.depth;
  task->fiber = fiber.parent;
  task->result = fiber.result;
  task->within = within() + 1;
  for (uint32_t i = 0; i < procedure.params; ++i)
    if (!addArgument(*task, fiber.cells.data()[i]))
      return nullptr;
  return task;
}

bool Machine::takeParts() {
  ThreadPool &pool = run_.session.pool();
  for (auto &task : fibers_->parts) {
    bool here = !task->offered || pool.takeBack(*task);
    if (!here && !await(*task))
      return false;
    task->offered = false; // it is over, or will be before this goes on
    if (here)
      task->body(*task);
    if (!task->good || !charge(task->instructions))
      return false;
  }
  for (auto &task : std::exchange(fibers_->parts, {}))
    deliver(task->fiber, task->result, task->value.take());
  return true;
}

} // namespace tensmith::runtime
