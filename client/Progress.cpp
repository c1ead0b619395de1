// The line of progress is drawn by a thread of its own, so that also work that says nothing of how
// far it is shows that it goes on.
#include "client/Progress.h"

#include "client/Verbosity.h"

#include <cstdio>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tensmith::client {

using namespace std::chrono_literals;

Progress::Progress(std::string what, bool shown)
    : shown_(shown && verbosity() != Verbosity::Quiet), terminal_(::isatty(STDERR_FILENO)),
      verbose_(shown && verbosity() == Verbosity::Verbose), what_(std::move(what)) {
  if (verbose_)
    say("tensmith: " + what_);
  if (shown_ && terminal_)
    watcher_ = std::jthread([this](std::stop_token stop) { watch(stop); });
}

Progress::~Progress() {
  watcher_.request_stop();
  if (watcher_.joinable())
    watcher_.join();
  if (drawn_)
    std::fputs("\r\033[K", stderr);
}

void Progress::update(std::string stage, double fraction, std::string figures) {
  std::unique_lock lock(mutex_);
  bool isNew = stage != stage_ && !stage.empty();
  stage_ = std::move(stage);
  figures_ = std::move(figures);
  fraction_ = fraction;
  if (!verbose_ || !isNew || !figures_.empty()) // a stage with figures is one of many steps
    return;
  std::string line = fmt::format("tensmith: {:7.2f} s  {}", seconds(), stage_);
  lock.unlock();
  say(line);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::callback(void *self, const char *stage, double fraction) {
  static_cast<Progress *>(self)->update(stage ? stage : "", fraction);
}

void Progress::say(const std::string &line) {
  if (!shown_)
    return;
  std::lock_guard lock(mutex_);
  if (drawn_)
    std::fputs("\r\033[K", stderr);
  std::fputs((line + "\n").c_str(), stderr);
}

void Progress::warn(const std::string &message) {
  if (std::lock_guard lock(mutex_); !warned_.insert(message).second)
    return; // the same of two parts of a compilation
  say("tensmith: warning: " + message);
}

void Progress::warnCallback(void *self, const char *message) {
  static_cast<Progress *>(self)->warn(message);
}

void Progress::watch(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  auto stopped = [&] { return stop.stop_requested(); };
  if (wake_.wait_for(lock, stop, 1s, stopped))
    return;
  do
    draw();
  while (!wake_.wait_for(lock, stop, 100ms, stopped));
}

/// What fits the terminal, which would break a longer line into two that are not drawn over.
static std::string fitting(const std::string &line) {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
    return line;
  size_t columns = 0, at = 0;
  for (; at < line.size(); ++at)
    if ((line[at] & 0xc0) != 0x80 && ++columns >= size.ws_col) // not within a character of UTF-8
      break;
  return line.substr(0, at);
}

void Progress::draw() {
  drawn_ = true;
  std::string line = what_ + (stage_.empty() ? "" : ": " + stage_);
  if (fraction_ >= 0)
    line += fmt::format(", {:.0f}%", 100 * std::min(fraction_, 1.0));
  if (!figures_.empty())
    line += " " + figures_;
  line += fmt::format(", {:.0f} s", seconds());
  std::fputs(("\r" + fitting(line) + "\033[K").c_str(), stderr);
}

} // namespace tensmith::client
