// The processes of a run that train together, seen from one of them: sums over all, which go on in
// a thread of their own while the step is computed.
//
// The thread sleeps between its looks at what is under way, since the cores are for the step; once
// the step itself waits it looks without a pause.
#pragma once

#include "train/Transport.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace tensmith::train {

class Processes {
public:
  using Clock = std::chrono::steady_clock;
  using Open = std::function<std::unique_ptr<Transport>()>;

  /// `seconds`: how long the others may take for what this one has begun. Throws what `open` does.
  Processes(Open open, double seconds);
  ~Processes();
  Processes(const Processes &) = delete;
  Processes &operator=(const Processes &) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Begins it, after those that were begun before; gives its number. `then` is called when it is
  /// done, by the thread of the transport. `label` is for the trace.
  int64_t begin(const Collective &collective, std::string label, std::function<void()> then = {});
  /// Throws Failure where it has failed, as all after it do.
  void wait(int64_t number);
  /// Throws what has failed, if anything has.
  void check();

  /// Sums at once.
  void sum(std::span<double> values);
  void sum(DataType type, std::byte *data, int64_t count, std::string label);
  /// Returns when all have come here.
  void meet();

  /// Ends all processes, this one included.
  [[noreturn]] void abort(int status);

  /// A collective that is done.
  struct Span {
    std::string label;
    int64_t bytes;
    Clock::time_point begin, end;
  };
  /// Those since the last call.
  std::vector<Span> takeSpans();

private:
  struct Entry {
    int64_t number, begun; // here, and the transport's
    Collective collective;
    std::string label;
    std::function<void()> then;
    Clock::time_point start;
  };
  int64_t enqueue(const Collective &collective, std::string label, std::function<void()> then);
  void waitFor(int64_t number, std::unique_lock<std::mutex> &lock);
  void work(const Open &open);
  void serve(Transport &transport, std::unique_lock<std::mutex> &lock);
  bool finishOne(Transport &transport);
  void checkTime(Transport &transport) const;

  double seconds_;
  int rank_ = 0, size_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> queue_;  // not begun yet
  std::vector<Entry> active_; // of the thread alone
  std::map<int64_t, bool> open_;
  std::vector<Span> spans_;
  std::exception_ptr failure_;
  int64_t next_ = 0, begun_ = 0;
  int waiting_ = 0, abort_ = -1;
  bool opened_ = false, stop_ = false;
  Clock::time_point moved_; // when something was done last
  std::thread thread_;      // last: it uses the rest
};

/// Through the library for MPI; throws Failure where that isn't there.
std::unique_ptr<Processes> openMpi(double seconds);

} // namespace tensmith::train
