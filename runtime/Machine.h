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
//
// A run is one machine, and more where calls that are forked run side by side (Forks.cpp); a
// machine has several stacks where calls of a function are done together (Batches.cpp).
#pragma once

#include "runtime/Cell.h"
#include "runtime/Interpreter.h"

#include <algorithm>

namespace tensmith::runtime {

struct ForkTask;
struct Fiber;
struct Fibers;

class Machine {
public:
  /// `task`: what it runs for, if it is not the run itself.
  explicit Machine(Run &run, ForkTask *task = nullptr);
  ~Machine();
  Machine(const Machine &) = delete;

  Result<TensorRef> call(uint32_t procedure, std::span<const TensorRef> arguments);
  /// The task's call, whose result and length it notes.
  void runTask();

  struct Activation {
    const ProcedureCode *procedure;
    uint32_t position; // of the instruction to go on with
    uint32_t result;   // the caller's register
    size_t base;       // of its registers
  };

private:
  const Program &program() const { return run_.session.module().program(); }
  Cell &at(uint32_t index) { return base_[index]; }

  /// Runs until the first activation has returned or something failed.
  bool loop();
  bool invoke(const uint32_t *word, uint32_t count);
  bool constant(uint32_t result, uint32_t index);
  bool construct(const uint32_t *word, uint32_t count, uint32_t tag, TensorKind kind);
  bool field(const uint32_t *word);
  bool reference(const uint32_t *word);
  bool readReference(const uint32_t *word);
  bool writeReference(const uint32_t *word);
  /// The reference that the word names.
  bool referenceIn(uint32_t word, TensorRef &value);
  bool choose(const uint32_t *word, uint32_t count);
  bool branch(const uint32_t *word);
  bool scalar(const uint32_t *word, uint32_t count);
  bool apply(uint32_t callee, const uint32_t *words, uint32_t count, uint32_t result, bool tail);
  bool returnFrom(uint32_t word);

  /// Puts an activation on top, with `captured` and what the words name in its first registers.
  bool enter(uint32_t procedure, std::span<const TensorRef> captured, const uint32_t *words,
             uint32_t count, uint32_t result);
  /// The same in the place of the one on top.
  bool replace(uint32_t procedure, std::span<const TensorRef> captured, const uint32_t *words,
               uint32_t count);
  bool pass(std::span<const TensorRef> captured, const uint32_t *words, uint32_t count, Cell *to);
  /// Goes on with the activation on top.
  void resume();
  /// Every few thousand instructions: whether the run may go on.
  bool refuel();
  /// Where the run is profiled, which refuels at every instruction: the one that is over now.
  bool measure();
  void endMeasure();
  int64_t remaining() const { return left_ + fuel_; }

  // ---- Forks.cpp

  /// The calls of a fork in an activation of which some have not begun.
  struct Fork {
    size_t activation;
    uint32_t begin, next, end; // positions: of the first, of the next to hand out, behind the last
  };
  bool mayFork() const { return parallel_ && !serial_ && !fiber_; }
  void fork(uint32_t count);
  /// Hands out the oldest call that has not begun, if somebody wants it.
  void handOut();
  bool findPending(Fork &fork, uint32_t &position);
  std::unique_ptr<ForkTask> makeTask(const Fork &fork, uint32_t position);
  std::unique_ptr<ForkTask> newTask();
  bool addArgument(ForkTask &task, const Cell &cell);
  /// Notes that the activation with that number is gone.
  void dropForks(size_t activation) {
    while (!fiber_ && !forks_.empty() && forks_.back().activation >= activation)
      forks_.pop_back();
    firstFork_ = std::min(firstFork_, forks_.size());
  }
  /// Where the call in work was handed out and is done: its result. `begin`: it has to be done
  /// here.
  bool join(uint32_t result, bool &begin);
  bool await(ForkTask &task);
  bool isCancelled() const;
  void cancelTasks();
  void cancel(std::vector<std::unique_ptr<ForkTask>> &tasks);

  // ---- Batches.cpp

  /// Whether calls of the fork that begins here may come to functions that are batched.
  bool mayBatch(uint32_t count) const;
  /// Does the calls of a fork together, if nothing fails; they are still to be done otherwise.
  bool batch(uint32_t count);
  bool makeFibers(uint32_t count, Fiber *parent);
  bool makeFiber(const uint32_t *word, Fiber *parent, uint32_t result);
  bool runFibers();
  bool runFiber(Fiber &fiber);
  /// Exchanges the stacks of the machine and the fiber.
  void exchange(Fiber &fiber);
  /// Leaves the fiber in work, whose next instruction is at `position`.
  bool suspend(uint32_t position);
  bool preempt();
  bool forkFibers(uint32_t count);
  bool waitForOthers(const uint32_t *word);
  bool anyWaits() const;
  /// Does waiting calls of a function.
  bool flush();
  std::vector<Fiber *> takeAlike(uint32_t function, std::vector<Fiber *> &all);
  bool isShared(uint32_t function, uint32_t operand, const Tensor &value) const;
  bool invokeTogether(uint32_t index, std::span<Fiber *const> calls);
  Result<TensorRef> gather(std::span<Fiber *const> calls, uint32_t operand, bool inFront);
  bool scatter(std::span<Fiber *const> calls, uint32_t result, const Tensor &rows, bool inFront);
  bool charge(int64_t instructions);
  /// Gives a call's result to the fiber that waits for it, or to the calls that were forked first.
  void deliver(Fiber *parent, uint32_t result, Cell value);

  // ---- BatchParts.cpp

  /// After a fork: gives a call away, if it is time to.
  void giveAway();
  std::unique_ptr<ForkTask> makePart(Fiber &fiber);
  /// Takes the results of all that was given away.
  bool takeParts();
  /// How many parts this machine's is within.
  int within() const;

  // What a word of an instruction names; each fails where the register is empty.
  bool readCell(uint32_t word, Cell &value);
  bool readTensor(uint32_t word, TensorRef &value);
  bool readScalar(uint32_t word, plan::ScalarType type, Scalar &value);

  bool fail(Status status);
  bool failEmpty();
  /// Where the program is, for a message.
  std::string_view place() const;

  Run &run_;
  CellStack cells_;
  std::vector<Activation> activations_;
  Session::MachineSpace space_;
  std::vector<TensorRef> constants_; // those that were read so far
  std::vector<Passed> passed_;
  Cell returned_{};
  Status failure_;

  // Of the activation on top.
  const uint32_t *code_ = nullptr;
  Cell *base_ = nullptr;
  uint32_t position_ = 0; // of the next instruction
  uint32_t at_ = 0;       // of the instruction in work
  // Instructions until the limit are these two; the first until something has to be looked at.
  int64_t fuel_ = 0, left_ = 0;

  Profile::Instruction *measured_ = nullptr; // the one in work, where the run is profiled
  Clock::time_point begun_;
  int64_t quantum_ = 0;

  ForkTask *task_;
  int64_t depth_ = 0;       // of activations below the first, in other machines
  bool parallel_;           // other threads may be given calls
  bool serial_ = false;     // a call failed elsewhere: this machine finds out where, by itself
  uint32_t beat_ = 0;       // work since a call was handed out
  std::vector<Fork> forks_; // the innermost last
  size_t firstFork_ = 0;    // those before have nothing left to hand out
  std::vector<std::unique_ptr<ForkTask>> tasks_; // handed out

  Fibers *fibers_ = nullptr; // of the space
  Fiber *fiber_ = nullptr;   // in work, if calls are done together
  bool suspended_ = false;   // it was left
};

/// A call that may be done by another thread.
struct ForkTask : ThreadPool::Task {
  Run *run;
  ForkTask *parent;  // of the machine that forked it
  size_t activation; // in that machine
  uint32_t position;
  uint32_t procedure;
  int64_t depth;
  Resources resources;
  std::vector<TensorRef> arguments;
  bool offered = false;
  std::atomic<bool> cancelled{false};
  // Of a part of a batch: whose register its value is for, or null (Batches.h).
  Fiber *fiber = nullptr;
  uint32_t result = 0;
  int within = 0; // parts
  // When it is done:
  bool good = false;
  Cell value{};
  int64_t instructions = 0;

  ~ForkTask() { value.clear(); }
};

inline int Machine::within() const { return task_ ? task_->within : 0; }

} // namespace tensmith::runtime
