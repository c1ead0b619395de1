// The numbers that runs have of their own, which random operators without a seed draw by.
#pragma once

#include <cstdint>

namespace tensmith {

/// Another number in each call, thread and process, also in a process and those forked off it.
uint64_t freshRunKey();

} // namespace tensmith
