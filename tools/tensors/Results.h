// Outputs as .npy files in a folder.
#pragma once

#include "tools/tensors/Values.h"

#include <filesystem>
#include <set>

namespace tensmith::cli {

/// A file name for a tensor, whatever a model calls it: a path in it must not lead elsewhere.
std::string fileName(const std::string &name, std::set<std::string> &taken);

void makeFolder(const std::string &folder);

/// Writes the tensor, or each tensor of a sequence or a map (0: its keys, 1: its values); gives the
/// first file's name.
std::string save(const Tensor &tensor, const std::filesystem::path &folder,
                 const std::string &name);

} // namespace tensmith::cli
