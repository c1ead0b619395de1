// The setting and its three kinds of lines; see Verbosity.h.
#include "client/Verbosity.h"

#include <atomic>
#include <cstdio>

namespace tensmith::client {
namespace {

std::atomic<Verbosity> current = Verbosity::Normal;

/// In one call, so that lines of several threads don't mix.
void line(Verbosity least, const char *kind, const std::string &message) {
  if (verbosity() >= least)
    std::fputs(("tensmith: " + std::string(kind) + message + "\n").c_str(), stderr);
}

} // namespace

Verbosity verbosity() { return current; }
void setVerbosity(Verbosity verbosity) { current = verbosity; }

void note(const std::string &message) { line(Verbosity::Normal, "note: ", message); }
void warn(const std::string &message) { line(Verbosity::Normal, "warning: ", message); }
void tell(const std::string &message) { line(Verbosity::Verbose, "", message); }

} // namespace tensmith::client
