// Whether a command's output is one of the files that it reads, which it would write over.
#pragma once

#include "files/Failure.h"

#include <filesystem>
#include <string>

namespace tensmith::cli {

/// Fails where `out`, as the option gives it, is the file at `read`: "the model", "the data". By
/// any path: links lead to what they name. Nothing is wrong where either is empty or not there.
inline void keepApart(const std::string &out, const std::string &option, const std::string &read,
                      const std::string &what) {
  std::error_code none;
  if (std::filesystem::equivalent(out, read, none))
    fail(out, "is " + what + " itself; give another " + option);
}

} // namespace tensmith::cli
