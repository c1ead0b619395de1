// What a command gives up with: a message that says where, what and what to do, and the exit
// status.
//
// 1 is for what went wrong with files, models and machines; 2 for a command line that can't be
// meant. Commands throw; main() alone prints and exits.
#pragma once

#include "base/Status.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace tensmith {

enum ExitStatus { kSuccess = 0, kFailure = 1, kUsage = 2 };

class Failure : public std::runtime_error {
public:
  explicit Failure(const std::string &message, ExitStatus status = kFailure)
      : std::runtime_error(message), status(status) {}
  ExitStatus status;
};

/// A file or an input, and what is wrong with it, which may name the file already.
[[noreturn]] inline void fail(const std::string &where, const std::string &what) {
  throw Failure(invalidArgument(what).within(where).message());
}
[[noreturn]] inline void failUsage(const std::string &what) { throw Failure(what, kUsage); }

} // namespace tensmith
