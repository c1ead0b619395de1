// A session's threads: one oneTBB arena, reached by kernels through `parallel_for`.
//
// The thread that runs a kernel takes part, and never waits for another to wake: the work is cut
// into a few chunks for each thread, each thread begins with its own share (so that neighbouring
// kernels find their data in the same caches) and then takes what is left of the others'. A worker
// that comes late finds nothing to do. Between runs TBB's workers sleep.
//
// Scratch memory belongs to the session, one stack of blocks for each place of the arena: a body
// that runs while another of the same thread is unfinished (nested parallel loops) gets the next
// block.
#pragma once

#include "runtime/Memory.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace tensmith::runtime {

/// CPUs that this process may use: its affinity, within its control group's quota (v1 and v2).
int availableCpus();

/// A quota in whole CPUs from the text of cgroup v2's cpu.max ("150000 100000" is 2); 0 for none.
int cpusOfQuota(const char *cpuMax);

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
  // A stack passes from thread to thread with its place in the arena. TBB orders that; the atomic
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

private:
  struct Arena;
  int threads_;
  std::unique_ptr<Arena> arena_;
};

} // namespace tensmith::runtime
