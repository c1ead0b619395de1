// Many programs in processes of their own, so that a crash costs one batch; its programs are then
// tried one by one.
#pragma once

#include <cstdint>
#include <string>

namespace tensmith::random_programs {

struct BatchOptions {
  uint64_t first = 1;
  int64_t count = 100;
  int jobs = 2, batch = 25, timeoutSeconds = 300;
  std::string folder = "random-programs", device;
};

/// Prints what was found, and writes the programs that fail to the folder; true where all agree.
bool runBatches(const BatchOptions &options);

} // namespace tensmith::random_programs
