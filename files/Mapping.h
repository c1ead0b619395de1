// Regular files, mapped, with errors that name the file.
#pragma once

#include "base/FileMapping.h"

#include <string>

namespace tensmith {

/// The whole file. Throws Failure.
MappedFile mapFile(const std::string &path);

} // namespace tensmith
