// The subcommands of `tensmith trees`, and how they give up.
#pragma once

#include "tools/tensmith/Commands.h"
#include "trees/ForestFile.h"

namespace tensmith::cli {

/// Gives up where there is a failure.
inline void needed(const Status &status, const std::string &where) {
  if (!status.ok())
    throw Failure(status.within(where).message());
}
template <typename T> T needed(Result<T> result, const std::string &where) {
  if (!result.ok())
    throw Failure(result.status().within(where).message());
  return std::move(*result);
}

void addTreesTrain(CLI::App &app, Action &chosen);

} // namespace tensmith::cli
