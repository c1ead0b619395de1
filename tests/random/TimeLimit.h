// An end for a process that hangs. What counts is the time that it computes, so that a busy machine
// ends nobody; one that waits for ever ends after ten times as long.
#pragma once

#include <csignal>
#include <sys/time.h>
#include <unistd.h>

namespace tensmith::random_graphs {

inline void limitTime(int seconds) {
  constexpr int kWaitingToComputing = 10;
  itimerval limit{{}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
  alarm(unsigned(seconds * kWaitingToComputing));
}

/// Whether it is this that ended a process.
inline bool endsByTimeLimit(int signal) { return signal == SIGPROF || signal == SIGALRM; }

} // namespace tensmith::random_graphs
