// A session's threads: some of the process's (Workers.h), reached by kernels through
// `parallel_for`.
//
// A run has many short loops, and waking a thread takes as long as some of them. So a worker that a
// loop has called in stays in attendance for as long as the run goes on: it watches the place
// where loops are posted, and leaves when nothing was posted for a while or the last run ended.
// Between runs workers sleep.
//
// The thread that runs a kernel takes part, and never waits for another to wake: the work is cut
// into a few chunks for each thread, each thread begins with its own share (so that neighbouring
// kernels find their data in the same caches) and then takes what is left of the others'. A worker
// that comes late finds nothing to do. A thread that waits for a task to end takes part, too, as
// the second lane. One loop is posted at a time: a loop within a loop, or of another run that finds
// the place taken, is done by its own thread alone.
//
// A run may also hand out tasks, pieces of its work that are as long as they are: a worker in
// attendance takes one where no loop is posted. Tasks are offered while workers are hungry, and
// what nobody has begun is taken back, so that a run never depends on a worker's coming.
//
// Scratch memory belongs to the session, one stack of blocks for each worker, and to the wait for a
// thread that waits: a body that runs while another of the same thread is unfinished (nested
// parallel loops) gets the next block.
#pragma once

#include "runtime/Memory.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

namespace tensmith::runtime {

/// Blocks of one thread, one for each depth of nesting; they grow and stay.
class ScratchStack {
public:
  void push() {
    depth_.store(depth_.load(std::memory_order_acquire) + 1, std::memory_order_relaxed);
  }
  void pop() {
    depth_.store(depth_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
  /// Null where the memory can't be had.
  void *take(int64_t bytes);

private:
  // A stack passes from thread to thread with its worker's post. The post orders that; the atomic
  // says it to ThreadSanitizer, and costs nothing.
  std::atomic<size_t> depth_{0};
  std::deque<Block> blocks_;
};

class ThreadPool {
public:
  /// `threads` 0: as many as availableCpus.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return threads_; }

  using Body = void (*)(void *closure, int64_t begin, int64_t end);

  /// Calls body on disjoint ranges that make up [0, count); returns when all are done. Ranges are
  /// no smaller than `grain`, but for the last.
  void parallelFor(int64_t count, int64_t grain, Body body, void *closure, ScratchStack &own);

  /// The stack of the body that the calling thread is in; `own` outside of any.
  ScratchStack &scratch(ScratchStack &own);

  /// While one exists, workers that a loop called in wait for the next loop.
  class Attendance {
  public:
    explicit Attendance(ThreadPool &pool);
    ~Attendance();
    Attendance(const Attendance &) = delete;

  private:
    ThreadPool &pool_;
  };

  /// Work that another thread may do. It stays where it is until it is done or taken back.
  struct Task {
    void (*body)(Task &) = nullptr;
    const void *owner = nullptr; // the run, whose waiting threads may do it, too
    std::atomic<bool> done{false};
  };

  /// Whether threads wait for work that nobody has offered yet, or nothing lies ready for the next
  /// that comes.
  bool hungry() const;
  /// Wakes workers, where there are any that sleep.
  void wake() { callWorkers(threads_ - 1); }
  /// False where there is no memory to remember it.
  bool offer(Task &task);
  /// True where nobody had begun it, and nobody will.
  bool takeBack(Task &task);
  /// While one exists, its thread counts as hungry.
  class Waiting {
  public:
    explicit Waiting(ThreadPool &pool);
    ~Waiting();
    Waiting(const Waiting &) = delete;
    /// Does a task of the owner's, if one is offered, takes part in a loop, or passes a moment.
    void pass(const void *owner, bool mayWork);

  private:
    ThreadPool &pool_;
    unsigned turn_ = 0;
    uint64_t seen_ = 0; // loops
    ScratchStack scratch_;
  };

private:
  struct Crew;
  /// Sees to it that so many workers are in attendance, or on their way.
  void callWorkers(int wanted);

  int threads_;
  std::shared_ptr<Crew> crew_;
};

} // namespace tensmith::runtime
