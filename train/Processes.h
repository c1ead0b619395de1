// The processes of a run that train together, seen from one of them: sums over all, which a thread
// moves on while the step is computed.
//
// The thread sleeps between its looks at what is under way, since the cores are for the step. Once
// the step itself waits it does that work in the thread's place, since another thread would have to
// be woken first, and wake it in the end, for what takes less time than either. One of them at a
// time calls the transport.
#pragma once

#include "train/Transport.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace tensmith::train {

class Processes {
public:
  using Clock = std::chrono::steady_clock;
  using Open = std::function<std::unique_ptr<Transport>()>;

  /// `seconds`: how long the others may take for what this one has begun. `threads`: that compute
  /// in this one. Throws what `open` does.
  Processes(Open open, double seconds, int threads = 1);
  ~Processes();
  Processes(const Processes &) = delete;
  Processes &operator=(const Processes &) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Begins it, after those that were begun before; gives its number. `then` is called when it is
  /// done, by the thread or by one that waits. `label` is for the trace. `soon`: it is waited for
  /// at once, so that the thread sleeps on: to wake it for an MLP's parameters doubled the context
  /// switches of a step.
  int64_t begin(const Collective &collective, std::string label, std::function<void()> then = {},
                bool soon = false);
  /// Throws Failure where it has failed, as all after it do.
  void wait(int64_t number);
  /// Throws what has failed, if anything has.
  void check();

  /// Sums at once.
  void sum(std::span<double> values);
  void sum(DataType type, std::byte *data, int64_t count, std::string label);
  /// Returns when all have come here.
  void meet();
  /// For one that fails: where something is under way, all that is waited for fails from now on,
  /// and nobody calls the transport when this returns. What is under way can't be taken back, so
  /// the memory that it is in is kept.
  void giveUp(std::shared_ptr<void> memory);

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
  void work(const Open &open, int threads);
  void serve(std::unique_lock<std::mutex> &lock);
  void giveWay(Clock::time_point since, std::unique_lock<std::mutex> &lock);
  void pause(std::unique_lock<std::mutex> &lock);
  bool drive(std::unique_lock<std::mutex> &lock);
  std::optional<Entry> move(std::vector<Entry> fresh);
  void checkTime() const;
  bool idle() const { return open_.empty(); }

  double seconds_;
  int rank_ = 0, size_ = 0;
  std::mutex mutex_;
  std::condition_variable work_;    // for the thread
  std::condition_variable changed_; // for those that wait
  std::vector<Entry> queue_;        // not begun yet
  std::vector<Entry> active_;       // of who drives
  std::map<int64_t, bool> open_;
  std::vector<Span> spans_;
  std::exception_ptr failure_;
  std::vector<std::shared_ptr<void>> kept_;
  Transport *transport_ = nullptr;
  int64_t next_ = 0;
  int waiting_ = 0, abort_ = -1;
  bool opened_ = false, stop_ = false;
  bool crowded_ = false;    // there are more threads than CPUs
  bool driven_ = false;     // by a thread that calls the transport
  Clock::time_point moved_; // when something was done last
  std::thread thread_;      // last: it uses the rest
};

/// Through the library for MPI; throws Failure where that isn't there.
std::unique_ptr<Processes> openMpi(double seconds, int threads);

} // namespace tensmith::train
