// How many CPUs a process may use: what every default number of threads is made from.
#pragma once

namespace tensmith {

/// CPUs that this process may use: its affinity, within its control group's quota (v1 and v2).
int availableCpus();

/// A quota in whole CPUs from the text of cgroup v2's cpu.max ("150000 100000" is 2); 0 for none.
int cpusOfQuota(const char *cpuMax);

} // namespace tensmith
