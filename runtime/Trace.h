// When each step ran, and on which thread each part of its loops: the timeline of measured runs.
//
// Recording takes a lock for each part, so a traced run is a little slower than others, and its
// times are for seeing the order and the balance of the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace tensmith::runtime {

class Trace {
public:
  struct Span {
    uint32_t function, step;
    int thread;          // numbered in the order in which they first did something
    int64_t begin, end;  // nanoseconds from the trace's beginning
    int64_t first, last; // of the loop's items; both -1 for the step itself
  };

  int64_t now() const {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start_).count();
  }
  /// On the calling thread; it ends now. Without memory for it, it is left out.
  void add(uint32_t function, uint32_t step, int64_t begin, int64_t first = -1, int64_t last = -1) {
    int64_t end = now();
    std::lock_guard lock(mutex_);
    try {
      int thread =
          threads_.try_emplace(std::this_thread::get_id(), int(threads_.size())).first->second;
      spans_.push_back({function, step, thread, begin, end, first, last});
    } catch (const std::bad_alloc &) {
    }
  }
  /// When the runs are over.
  const std::vector<Span> &spans() const { return spans_; }

private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::map<std::thread::id, int> threads_;
  std::vector<Span> spans_;
};

} // namespace tensmith::runtime
