// The calling thread's budget and deadline; see Budget.h.
#include "base/Budget.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace tensmith {
namespace {

thread_local Resources current;

} // namespace

int64_t availableMemory() {
  int64_t bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const char *path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    if (int64_t limit = 0; file >> limit && limit > 0)
      bytes = std::min(bytes, limit);
  }
  return bytes;
}

bool Charge::take(int64_t bytes) {
  if (!current.budget)
    return true;
  if (!current.budget->take(bytes))
    return false;
  budget_ = current.budget;
  bytes_ = bytes;
  return true;
}

void Charge::give() {
  budget_->give(bytes_);
  budget_.reset(); // here, and not in every place that a charge ends
}

Clock::time_point deadlineIn(double seconds) {
  constexpr double kLongest = 1e9; // more overflows the clock
  if (!(seconds > 0) || seconds > kLongest)
    return Clock::time_point::max();
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Resources currentResources() { return current; }

ResourceScope::ResourceScope(Resources resources)
    : before_(std::exchange(current, std::move(resources))) {}

ResourceScope::~ResourceScope() { current = std::move(before_); }

Status checkTime() {
  if (current.deadline == Clock::time_point::max() || Clock::now() < current.deadline)
    return {};
  return outOfTime();
}

Status outOfTime() {
  return {StatusCode::ResourceExhausted,
          "it took longer than the limit of time allows; raise the limit if that is no mistake"};
}

} // namespace tensmith
