// Posting a loop, and waiting for what others do: looks for a while, then sleep.
#include "trees/Threads.h"

#include "base/Cpus.h"
#include "base/Pause.h"

#include <algorithm>
#include <chrono>
#include <mutex>

namespace tensmith::trees {

namespace {

/// As the threads of a session (runtime/Threads.cpp).
constexpr std::chrono::microseconds kPatience(200);

/// Returns when the value is another one.
template <typename Value> void awaitOther(const std::atomic<Value> &value, Value than) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::now() + kPatience;
  for (unsigned turn = 0; value.load() == than; ++turn) {
    if (turn % 16 == 15 && Clock::now() > end)
      return value.wait(than);
    pauseBetweenLooks(turn);
  }
}

} // namespace

struct Threads::Loop {
  Call call;
  void *closure;
  int64_t parts;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;

  void take(int thread) {
    try {
      for (int64_t part; (part = next.fetch_add(1, std::memory_order_relaxed)) < parts;)
        call(closure, part, thread);
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = std::current_exception();
      next.store(parts, std::memory_order_relaxed); // what is left is not begun
    }
  }
};

Threads::Threads(int64_t count) {
  int64_t wanted = count > 0 ? count : int64_t(availableCpus());
  try {
    for (int64_t thread = 1; thread < std::min<int64_t>(wanted, 256); ++thread)
      workers_.emplace_back([this, thread] { work(int(thread)); });
  } catch (const std::exception &) {
    // There are no more threads or no memory for them: those that began do the work.
  }
}

Threads::~Threads() {
  ends_ = true;
  number_.fetch_add(1);
  number_.notify_all();
  for (std::thread &worker : workers_)
    worker.join();
}

void Threads::run(int64_t parts, Call call, void *closure) {
  if (workers_.empty() || parts <= 1) {
    for (int64_t part = 0; part < parts; ++part)
      call(closure, part, 0);
    return;
  }
  Loop loop{call, closure, parts, {}, {}, {}};
  posted_.store(&loop);
  number_.fetch_add(1);
  number_.notify_all();
  loop.take(0);
  posted_.store(nullptr);
  // A worker counts itself before it looks for the loop, so whoever saw it is counted by now.
  for (int inside; (inside = inside_.load()) > 0;)
    awaitOther(inside_, inside);
  if (loop.failure)
    std::rethrow_exception(loop.failure);
}

void Threads::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    awaitOther(number_, seen);
    seen = number_.load();
    if (ends_)
      return;
    inside_.fetch_add(1);
    if (Loop *loop = posted_.load())
      loop->take(thread);
    inside_.fetch_sub(1);
    inside_.notify_all();
  }
}

} // namespace tensmith::trees
