// NumPy's file of one array, as `load` reads it.
#pragma once

#include "base/HostTensor.h"

namespace tensmith::text {

/// Little-endian arrays in C order, of the format's versions 1 to 3. The result has its own memory.
Result<HostTensor> readNpy(const std::string &path);

} // namespace tensmith::text
