// Sleeping and waking by one condition; see Workers.h.
#include "runtime/Workers.h"

#include "base/Pause.h"

#include <algorithm>
#include <atomic>
#include <pthread.h>
#include <thread>

namespace tensmith::runtime {
namespace {

/// How long a worker watches for the next call: some times what waking it would take.
constexpr std::chrono::microseconds kPatience(200);

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
    bool isWatched = watching_ > jobs_; // by one that takes no earlier job
    bool sleeper = !isWatched && watching_ + asleep_ > jobs_;
    if (!isWatched && !sleeper && !makeWorker() && threads_ == 0)
      return false;
    job.next = nullptr;
    *end_ = &job;
    end_ = &job.next;
    ++jobs_;
    isCalledSoon_ = std::chrono::steady_clock::now() - idleSince_ < kPatience;
    calls_.fetch_add(1, std::memory_order_release);
    if (!sleeper)
      return true;
  }
  called_.notify_one();
  return true;
}

/// Until there is a call, or for a while.
void Workers::watch(std::unique_lock<std::mutex> &lock) {
  ++watching_;
  uint64_t seen = calls_.load(std::memory_order_relaxed);
  lock.unlock();
  auto until = std::chrono::steady_clock::now() + kPatience;
  for (unsigned turn = 0; calls_.load(std::memory_order_acquire) == seen; ++turn) {
    if (turn % 16 == 15 && std::chrono::steady_clock::now() > until)
      break;
    pauseBetweenLooks(turn);
  }
  lock.lock();
  --watching_;
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    idleSince_ = std::chrono::steady_clock::now();
    if (!first_ && isCalledSoon_)
      watch(lock);
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
