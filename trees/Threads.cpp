// Threads that take the parts of one loop at a time: posted under a lock, taken by a counter.
#include "trees/Threads.h"

#include "base/Cpus.h"

#include <algorithm>

namespace tensmith::trees {

Threads::Threads(int64_t count) {
  int64_t wanted = count > 0 ? count : int64_t(availableCpus());
  for (int64_t thread = 1; thread < std::min<int64_t>(wanted, 256); ++thread)
    workers_.emplace_back([this, thread] { work(int(thread)); });
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
  for (int64_t part; (part = next_.fetch_add(1, std::memory_order_relaxed)) < parts_;)
    call_(closure_, part, thread);
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
