// Objects to a shared object, with lld inside the process.
#pragma once

#include "base/Status.h"

#include <span>
#include <string>
#include <vector>

namespace tensmith::modules {

/// The linked image: the kernels (k_...) are exported, nothing is imported, and no two mapped
/// segments share a page of the file with other rights. One link runs at a time in a process, the
/// others wait.
Result<std::string> linkShared(const std::vector<std::span<const char>> &objects,
                               const std::string &name);

} // namespace tensmith::modules
