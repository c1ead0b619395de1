// Sleeping and waking by one condition; see Workers.h.
#include "runtime/Workers.h"

#include <algorithm>
#include <atomic>
#include <pthread.h>
#include <thread>

namespace tensmith::runtime {
namespace {

/// Never destroyed: threads sleep in it for as long as the process lives.
std::atomic<Workers *> current;

} // namespace

/// The parent's threads are not in the child, and one of them may have held the lock.
void Workers::beginAnew() {
  const Workers *before = current;
  auto *fresh = new Workers;
  fresh->allowed_ = before ? before->allowed_ : 0;
  current = fresh;
}

Workers &Workers::ofProcess() {
  static const bool begun = (beginAnew(), pthread_atfork(nullptr, nullptr, beginAnew), true);
  (void)begun;
  return *current;
}

void Workers::allow(int threads) {
  std::lock_guard lock(mutex_);
  allowed_ = std::max(allowed_, threads);
}

bool Workers::makeWorker() {
  if (threads_ >= allowed_)
    return false;
  try {
    std::thread([this] { work(); }).detach();
  } catch (const std::exception &) { // the system has no thread, or no memory for one
    return false;
  }
  ++threads_;
  return true;
}

bool Workers::call(Job &job) {
  {
    std::lock_guard lock(mutex_);
    bool sleeper = asleep_ > jobs_; // that no earlier job has woken
    if (!sleeper && !makeWorker() && threads_ == 0)
      return false;
    job.next = nullptr;
    *end_ = &job;
    end_ = &job.next;
    ++jobs_;
    if (!sleeper)
      return true;
  }
  called_.notify_one();
  return true;
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (!first_) {
      ++asleep_;
      called_.wait(lock);
      --asleep_;
    }
    Job &job = *first_;
    first_ = job.next;
    if (!first_)
      end_ = &first_;
    --jobs_;
    lock.unlock();
    job.body(job);
    lock.lock();
  }
}

} // namespace tensmith::runtime
