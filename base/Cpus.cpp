// Affinity from the scheduler, quotas from the files of control groups; see Cpus.h.
#include "base/Cpus.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace tensmith {
namespace {

int cpusOfAffinity() {
  // The kernel refuses a set smaller than its own.
  for (size_t cpus = 1024; cpus <= (size_t(1) << 20); cpus *= 2) {
    std::vector<unsigned long> set(cpus / (CHAR_BIT * sizeof(unsigned long)));
    size_t bytes = set.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t *>(set.data())) == 0)
      return std::max(1, CPU_COUNT_S(bytes, reinterpret_cast<cpu_set_t *>(set.data())));
  }
  return 1;
}

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int smallerQuota(int a, int b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// The least quota of a group and the groups around it; 0 for none.
template <typename Read> int quotaOfGroups(std::string path, Read read) {
  int quota = 0;
  while (true) {
    quota = smallerQuota(quota, read(path));
    size_t slash = path.rfind('/');
    if (slash == std::string::npos)
      return quota;
    path.resize(slash);
  }
}

int quotaOfVersion1(const std::string &folder) {
  std::string quota = firstLine(folder + "/cpu.cfs_quota_us");
  std::string period = firstLine(folder + "/cpu.cfs_period_us");
  return quota.empty() || quota[0] == '-' ? 0 : cpusOfQuota((quota + " " + period).c_str());
}

/// Lines of /proc/self/cgroup are "number:controllers:path"; version 2's is "0::path".
int cpusOfControlGroup() {
  std::ifstream groups("/proc/self/cgroup");
  int quota = 0;
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/")
      path.clear();
    if (controllers == ",,")
      quota = smallerQuota(quota, quotaOfGroups(path, [](const std::string &group) {
                             return cpusOfQuota(
                                 firstLine("/sys/fs/cgroup" + group + "/cpu.max").c_str());
                           }));
    else if (controllers.find(",cpu,") != std::string::npos)
      quota = smallerQuota(quota, quotaOfGroups(path, [](const std::string &group) {
                             return quotaOfVersion1("/sys/fs/cgroup/cpu" + group);
                           }));
  }
  return quota;
}

} // namespace

int cpusOfQuota(const char *cpuMax) {
  double quota = 0, period = 0;
  if (std::sscanf(cpuMax, "%lf %lf", &quota, &period) != 2 || quota <= 0 || period <= 0)
    return 0;
  double cpus = quota / period;
  return cpus >= INT_MAX ? 0 : std::max(1, int(cpus + 0.999));
}

bool mayUseTiles() {
#if defined(__x86_64__)
  constexpr int kRequest = 0x1023;        // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;           // the number of a component of the state
  static std::atomic<bool> given = false; // what is refused may be given later
  if (!given)
    given = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return given;
#else
  return false;
#endif
}

int availableCpus() { return smallerQuota(cpusOfAffinity(), cpusOfControlGroup()); }

} // namespace tensmith
