// The threads of one training or prediction. A loop's parts are taken as threads become free: which
// thread does a part changes nothing, since no sum depends on it (Gradients.h).
//
// A level of a tree is several loops of less than a millisecond, and waking a thread takes some
// tenths of that. So a thread looks for the next loop for a while before it sleeps, and one that
// comes late to a loop is not waited for: it finds nothing to do.
#pragma once

#include "base/Status.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace tensmith::trees {

class Threads {
public:
  /// 0: as many as CPUs that this process may use.
  explicit Threads(int64_t count = 1);
  ~Threads();
  Threads(const Threads &) = delete;
  Threads &operator=(const Threads &) = delete;

  int count() const { return int(workers_.size()) + 1; }

  /// body(part, thread) for each part of [0, parts); returns when all are done. What a body throws
  /// (std::bad_alloc) is thrown again here, once no thread uses the body any more.
  template <typename Body> void parts(int64_t parts, Body &&body) {
    using Plain = std::remove_reference_t<Body>;
    run(
        parts,
        [](void *closure, int64_t part, int thread) {
          (*static_cast<Plain *>(closure))(part, thread);
        },
        const_cast<std::remove_const_t<Plain> *>(&body));
  }

  /// body(begin, end, thread) for ranges of at most `grain` that make up [0, count).
  template <typename Body> void ranges(int64_t count, int64_t grain, Body &&body) {
    parts((count + grain - 1) / grain, [&](int64_t part, int thread) {
      int64_t begin = part * grain;
      body(begin, begin + grain < count ? begin + grain : count, thread);
    });
  }

  /// The same; ResourceExhausted, with what it was for, where memory ends.
  template <typename Body>
  Status rangesInMemory(int64_t count, int64_t grain, const char *what, Body &&body) {
    try {
      ranges(count, grain, body);
    } catch (const std::bad_alloc &) {
      return {StatusCode::ResourceExhausted, std::string("there is not enough memory for ") + what};
    }
    return {};
  }

private:
  using Call = void (*)(void *closure, int64_t part, int thread);
  struct Loop;
  void run(int64_t parts, Call call, void *closure);
  void work(int thread);

  std::vector<std::thread> workers_;
  std::atomic<Loop *> posted_{nullptr};
  std::atomic<uint32_t> number_{0}; // of loops posted so far; also counts the end
  std::atomic<int> inside_{0};      // workers that may hold `posted_`
  std::atomic<bool> ends_{false};
};

} // namespace tensmith::trees
