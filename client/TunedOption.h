// A database of tuned points as an option of compilations.
#pragma once

#include "tune/database/DefaultDatabase.h"
#include "tune/database/TunedPoints.h"

#include <tensmith/compiler.h>

#include <functional>
#include <memory>
#include <string>

namespace tensmith::client {

/// The database that compilations go by, as a user may name it.
struct TunedOption {
  std::string database = tune::defaultDatabase(); // empty: none
  bool isNamed = false; // one that is named must be there; else none is none
};

/// Has the compilation ask the database; null where there is none. What is given must live for as
/// long as the options are used. One that can't be read is a failure where it was named, else a
/// warning.
std::unique_ptr<tune::TunedPoints> takeTuned(const TunedOption &option, ts_compile_options &options,
                                             const std::function<void(const std::string &)> &warn);

/// After a compilation: says so where the database has points of other machines alone.
void tellOfOthers(const tune::TunedPoints *points,
                  const std::function<void(const std::string &)> &warn);

} // namespace tensmith::client
