// How many CPUs a process may use, what every default number of threads is made from, and what of
// them has to be asked for.
#pragma once

namespace tensmith {

/// CPUs that this process may use: its affinity, within its control group's quota (v1 and v2).
int availableCpus();

/// A quota in whole CPUs from the text of cgroup v2's cpu.max ("150000 100000" is 2); 0 for none.
int cpusOfQuota(const char *cpuMax);

/// Whether this process may use the tiles of Intel's AMX: Linux gives their state to those that ask
/// for it, once and for all threads ("Using XSTATE features in user space applications" in its
/// documentation). False where the CPU or the system has none.
bool mayUseTiles();

} // namespace tensmith
