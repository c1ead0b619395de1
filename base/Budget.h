// How much memory and time the work on somebody's file may take, and the place where both are
// looked at: tensors' memory when it is taken, time wherever work can go on without end.
//
// A file of a few hundred bytes can ask for any amount of either. Without a limit the machine
// decides, by killing whichever process it likes. So whoever starts work opens a ResourceScope, and
// all tensors that the thread makes within it are charged to its budget, until they are freed,
// wherever that is. Outside of any scope nothing is limited.
#pragma once

#include "base/Status.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace tensmith {

/// The memory of this machine, or of the control group where that is less.
int64_t availableMemory();

class Budget {
public:
  /// `bytes` 0: availableMemory().
  explicit Budget(int64_t bytes) : limit_(bytes > 0 ? bytes : availableMemory()) {}

  bool take(int64_t bytes) {
    if (taken_.fetch_add(bytes, std::memory_order_relaxed) <= limit_ - bytes)
      return true;
    give(bytes);
    return false;
  }
  void give(int64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

private:
  int64_t limit_;
  std::atomic<int64_t> taken_{0};
};

/// A part of a budget, given back with its owner. Copies of it are none.
class Charge {
public:
  Charge() = default;
  Charge(Charge &&other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge &operator=(Charge &&other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_)
      give();
  }

  /// To the calling thread's budget. False where that has not so much left.
  bool take(int64_t bytes);

private:
  void give();

  std::shared_ptr<Budget> budget_;
  int64_t bytes_ = 0;
};

using Clock = std::chrono::steady_clock;

/// `seconds` from now; never, where that is 0.
Clock::time_point deadlineIn(double seconds);

struct Resources {
  std::shared_ptr<Budget> budget; // null: without limit
  Clock::time_point deadline = Clock::time_point::max();
};

/// The calling thread's, for a thread that shall do a part of its work.
Resources currentResources();

/// What the calling thread's work is charged to, for as long as this lives.
class ResourceScope {
public:
  explicit ResourceScope(Resources resources);
  ~ResourceScope();
  ResourceScope(const ResourceScope &) = delete;

private:
  Resources before_;
};

/// ResourceExhausted once the thread's deadline has passed.
Status checkTime();
/// That error.
Status outOfTime();

} // namespace tensmith
