// How much a program says on stderr beside its errors: one setting of the process, made by its
// command line before anything else. The Python package leaves it as it is.
//
// Quiet: errors alone. Normal: warnings, notes, and one line of progress on a terminal. Verbose:
// also what was decided on the way, each in a line that stays.
#pragma once

#include <string>

namespace tensmith::client {

enum class Verbosity { Quiet, Normal, Verbose };

Verbosity verbosity();
void setVerbosity(Verbosity verbosity);

/// "tensmith: note: ...", unless quiet.
void note(const std::string &message);
/// "tensmith: warning: ...", unless quiet.
void warn(const std::string &message);
/// "tensmith: ...", where verbose.
void tell(const std::string &message);

} // namespace tensmith::client
