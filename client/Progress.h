// What is being done, on stderr, for whatever takes over a second.
//
// Silent for the first second. On a terminal one line is drawn over and over; a pipe or a file gets
// none of it. Where a program was told to be verbose (Verbosity.h), each stage is a line that
// stays, with the time at which it began, wherever it goes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace tensmith::client {

class Progress {
public:
  /// `shown`: whether anything of it is.
  explicit Progress(std::string what, bool shown = true);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// From any thread; `fraction` below 0 where it isn't known. `figures` may change all the time:
  /// of themselves they make no new line.
  void update(std::string stage, double fraction = -1, std::string figures = "");
  /// ts_compile_options::progress, whose context is the Progress.
  static void callback(void *self, const char *stage, double fraction);
  /// A line that stays; from any thread.
  void say(const std::string &line);
  void warn(const std::string &message);
  /// ts_compile_options::warn, whose context is the Progress.
  static void warnCallback(void *self, const char *message);

private:
  void watch(std::stop_token stop);
  void draw();
  double seconds() const; // since it began

  using Clock = std::chrono::steady_clock;
  const bool shown_, terminal_, verbose_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string what_, stage_, figures_;
  std::set<std::string> warned_;
  double fraction_ = -1;
  bool drawn_ = false;
  std::jthread watcher_; // last: stops before the rest goes
};

} // namespace tensmith::client
