// Linux describes each cache of a CPU in a folder of files; where it doesn't, the C library may
// know the sizes.
#include "compiler/targets/cpu/machine/HostCaches.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace tensmith::targets::cpu {
namespace {

std::string wordOf(const std::string &path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

/// "512K" or "32M" in bytes, 0 for what is neither.
int64_t bytesOf(const std::string &size) {
  std::istringstream text(size);
  int64_t number = 0;
  char unit = 0;
  text >> number >> unit;
  return number <= 0 || number > (int64_t(1) << 40) ? 0
         : unit == 'K'                              ? number << 10
         : unit == 'M'                              ? number << 20
                                                    : 0;
}

std::vector<HostCache> describedCaches() {
  std::vector<HostCache> caches;
  for (int index = 0; index < 8; ++index) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int level = 0;
    std::ifstream(folder + "level") >> level;
    int64_t bytes = bytesOf(wordOf(folder + "size"));
    if (level > 0 && bytes > 0 && wordOf(folder + "type") != "Instruction")
      caches.push_back({level, bytes, std::max(1, cpusOfList(wordOf(folder + "shared_cpu_list")))});
  }
  return caches;
}

std::vector<HostCache> findCaches() {
  std::vector<HostCache> caches = describedCaches();
  constexpr int kNames[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  for (int level = 1; level <= 3; ++level) {
    bool known = std::any_of(caches.begin(), caches.end(),
                             [&](const HostCache &cache) { return cache.level == level; });
    long bytes = known ? 0 : sysconf(kNames[level - 1]);
    if (bytes > 0)
      caches.push_back({level, bytes, 1});
  }
  std::sort(caches.begin(), caches.end(),
            [](const HostCache &a, const HostCache &b) { return a.level < b.level; });
  return caches;
}

} // namespace

int cpusOfList(const std::string &list) {
  std::istringstream text(list);
  int count = 0;
  for (std::string part; std::getline(text, part, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream range(part);
    if (range >> first)
      count += range >> dash >> last && dash == '-' && last >= first ? last - first + 1 : 1;
  }
  return count;
}

const std::vector<HostCache> &hostCaches() {
  static const std::vector<HostCache> caches = findCaches();
  return caches;
}

std::string hostProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (size_t colon = line.find(": "); line.starts_with("model name") && colon < line.size())
      return line.substr(colon + 2);
  return {};
}

} // namespace tensmith::targets::cpu
