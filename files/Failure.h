// What a command gives up with: a message that says where, what and what to do, and the exit
// status.
//
// Commands throw; main() alone prints and exits. kExitStatuses is the one table of statuses: the
// help, the manual pages and docs/command-line.md are made of it or held against it.
#pragma once

#include "base/Status.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace tensmith {

enum ExitStatus { kSuccess = 0, kFailure = 1, kUsage = 2 };

struct ExitMeaning {
  const char *status, *meaning;
};
inline constexpr ExitMeaning kExitStatuses[] = {
    {"0", "done"},
    {"1", "failed: a file, a model, an input, the machine; or a check that found something "
          "(compare, cache verify, format --check, doctor)"},
    {"2", "the command line can't be meant: an unknown command, option or value, a missing one"},
    {"130", "train was interrupted (SIGINT, Ctrl-C), and has kept a checkpoint"},
    {"143", "train was asked to end (SIGTERM), and has kept a checkpoint"},
    {"141", "nobody reads the output any more (SIGPIPE, as of head)"},
};

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
