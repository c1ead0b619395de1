// A program that is run with limits, whatever it does.
#pragma once

#include "base/Status.h"

#include <string>
#include <vector>

namespace tensmith::pipeline {

struct ChildLimits {
  double seconds = 30;
  int64_t memoryBytes = 0; // of private memory that it may write; 0: any
  int cpus = 0;            // that it is bound to, the first of those of this process; 0: all
};

struct ChildResult {
  enum class End : uint8_t { Exited, Killed, TimedOut } end = End::Exited;
  int status = 0; // the exit status, or the signal that ended it
  std::string output, errors;
};

/// Runs the command to its end or to the limit of time, when its whole process group is killed. An
/// error where it can't be started.
Result<ChildResult> runChild(const std::vector<std::string> &command, const ChildLimits &limits);

} // namespace tensmith::pipeline
