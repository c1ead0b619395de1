// Paths that lead nowhere: what may have been meant, and whether a file could be written there.
#pragma once

#include "base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace tensmith {

/// "; did you mean 'model.onnx'?", by the names beside a path at which nothing is, or what else
/// there is to say of it.
std::string similarFile(const std::string &path);

/// Whether a file can be written at the path, before the work that makes it: IoError where its
/// folder is missing or can't be written.
Status checkWritable(const std::string &path);

/// The names in a folder, sorted; the first few thousand.
std::vector<std::string> namesIn(const std::string &folder);

} // namespace tensmith
