// The process's threads beside those that run sessions. They sleep until a pool calls one, and go
// back to sleep when the pool lets go of it; all pools share them.
//
// To wake a thread takes about as long as a small model's run. So where calls come soon after one
// another, as those of runs in a loop do, a worker that is let go of watches for the next call a
// while before it sleeps.
//
// There are as many as CPUs less one, or as the pool that asked for most. A call that finds all of
// them at work waits for the first that is free, which a pool never depends on (Threads.h). They
// last as long as the process. A process that was forked off has none of them, and makes its own
// when it calls.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tensmith::runtime {

class Workers {
public:
  static Workers &ofProcess();

  /// What a worker does. It stays where it is until a worker has begun it.
  struct Job {
    void (*body)(Job &) = nullptr;
    Job *next = nullptr; // that was called after it
  };

  /// Lets there be so many.
  void allow(int threads);
  /// Has a worker do the job, once. False where there is no worker and none can be made.
  bool call(Job &job);

private:
  static void beginAnew();
  void work();
  bool makeWorker();
  void watch(std::unique_lock<std::mutex> &lock);

  std::mutex mutex_;
  std::condition_variable called_;
  Job *first_ = nullptr, **end_ = &first_; // jobs that no worker has begun
  int jobs_ = 0;
  int allowed_ = 0, threads_ = 0, asleep_ = 0, watching_ = 0;
  std::atomic<uint64_t> calls_{0};                  // so far
  std::chrono::steady_clock::time_point idleSince_; // when a worker was let go of last
  bool isCalledSoon_ = false;                       // the last call came soon after that
};

} // namespace tensmith::runtime
