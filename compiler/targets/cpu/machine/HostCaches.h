// The host's data caches, as its operating system describes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensmith::targets::cpu {

struct HostCache {
  int level;     // 1 is the nearest
  int64_t bytes; // of one such cache
  int sharedBy;  // CPUs
};

/// Those that hold data, the nearest first; empty where nobody says.
const std::vector<HostCache> &hostCaches();

/// How many CPUs a list as "0-3,8" has.
int cpusOfList(const std::string &list);

/// "AMD EPYC 7763 64-Core Processor"; empty where nobody says.
std::string hostProcessor();

} // namespace tensmith::targets::cpu
