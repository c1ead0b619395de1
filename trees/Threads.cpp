// Threads that take the parts of one loop at a time: posted under a lock, taken by a counter.
#include "trees/Threads.h"

#include "base/Cpus.h"

#include <algorithm>
#include <utility>

namespace tensmith::trees {

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
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  posted_.notify_all();
  for (std::thread &worker : workers_)
    worker.join();
}

void Threads::take(int thread) {
  try {
    for (int64_t part; (part = next_.fetch_add(1, std::memory_order_relaxed)) < parts_;)
      call_(closure_, part, thread);
  } catch (...) {
    std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    next_.store(parts_, std::memory_order_relaxed); // what is left is not begun
  }
}

void Threads::run(int64_t parts, Call call, void *closure) {
  if (workers_.empty() || parts <= 1) {
    for (int64_t part = 0; part < parts; ++part)
      call(closure, part, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    call_ = call, closure_ = closure, parts_ = parts;
    next_.store(0, std::memory_order_relaxed);
    busy_ = int(workers_.size());
    ++loop_;
  }
  posted_.notify_all();
  take(0);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return busy_ == 0; });
  if (failure_)
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Threads::work(int thread) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [&] { return ends_ || loop_ != seen; });
    if (ends_)
      return;
    seen = loop_;
    lock.unlock();
    take(thread);
    lock.lock();
    if (--busy_ == 0)
      finished_.notify_one();
  }
}

} // namespace tensmith::trees
