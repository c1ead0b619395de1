// Where a user's tuned points are, unless another file is named. Apart from the database, so that
// whoever compiles nothing needs no SQLite.
#pragma once

#include "cache/Store.h"

#include <cstdlib>
#include <string>

namespace tensmith::tune {

/// `$TENSMITH_TUNED`, or "tuned.sqlite" in the folder of what was compiled (cache/Store.h); empty,
/// for none, where TENSMITH_TUNED is set to nothing or there is no such folder.
inline std::string defaultDatabase() {
  if (const char *named = std::getenv("TENSMITH_TUNED"))
    return named;
  std::string folder = cache::defaultFolder();
  return folder.empty() ? folder : folder + "/tuned.sqlite";
}

} // namespace tensmith::tune
