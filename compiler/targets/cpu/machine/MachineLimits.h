// What a machine can do at most, measured once and kept: the limits that the speed of kernels is
// measured against, and that estimates of cost count with.
//
// The file is the user's, one for each machine that the folder is used on: its name is the hash of
// the processor's name, of what LLVM knows of it, of its caches and of how many CPUs are on. A
// measurement is disturbed by whatever else runs, so two of them differ: whoever decides by the
// figures rounds them first (CostFigures), and what was decided by which is said by `identity`.
// After Williams, Waterman and Patterson, "Roofline", 2009.
#pragma once

#include "base/Status.h"
#include "compiler/targets/cpu/machine/Cpu.h"

#include <optional>
#include <string>
#include <vector>

namespace tensmith::targets::cpu {

/// Of one CPU alone, and of all that were measured, together.
struct Rate {
  double one = 0, all = 0;
};

/// Arithmetic in registers; a multiply-add is two operations.
struct ArithmeticLimit {
  std::string type;        // "f32"
  std::string instruction; // "fma"
  Rate operations;         // in a second
};

/// Bytes in a second. Copying counts what is read and what is written.
struct Bandwidth {
  Rate read, write, copy;
};

/// A cache, or the memory.
struct MemoryLimit {
  std::string name;  // "L1", "memory"
  int64_t bytes = 0; // of one such cache; 0 for the memory
  int sharedBy = 1;  // CPUs
  Bandwidth bandwidth;
};

struct MachineLimits {
  std::string processor; // as the operating system calls it
  std::string cpu;       // as LLVM does
  int threads = 0;       // that `all` are
  std::vector<ArithmeticLimit> arithmetic;
  std::vector<MemoryLimit> memory; // the nearest first
  double handOverSeconds = 0;      // of a parallel loop over all threads that does nothing
  double callSeconds = 0;          // of a kernel that does nothing

  /// Eight hexadecimal digits of all of the above.
  std::string identity() const;
  /// Why they can't be this machine's, where something else had its CPUs while they were measured;
  /// empty where nothing tells.
  std::string doubt() const;
};

/// Whether the arithmetic of all threads is as much more than one's as that of several cores is.
bool plausible(const Rate &arithmetic, int cores);

/// What estimates of cost count with, in cycles of one core that multiplies and adds two vectors of
/// f32 in each. Rounded to powers of the fourth root of two, so that measurements that agree within
/// their noise mostly give the same figures.
struct CostFigures {
  double nearBytesPerCycle;   // of the second-level cache
  double farBytesPerCycle;    // beyond it
  double memoryBytesPerCycle; // of the memory
  int64_t lastCacheBytes;
};
std::optional<CostFigures> costFigures(const MachineLimits &limits, const Cpu &machine);

/// For people and programs that ask what is compiled for: the features are those that code may use,
/// without LLVM's hints to its scheduler; "threads" is how many CPUs this process may use; "limits"
/// is null where there are none.
std::string describe(const Cpu &machine, const MachineLimits *limits);

std::string toJson(const MachineLimits &limits);
/// InvalidArgument where the text is damaged or of another format.
Result<MachineLimits> limitsFromJson(std::string_view text);

/// The file of this machine's limits; empty where there is no folder for caches.
std::string limitsPath(const Cpu &machine);
/// Nothing where the machine was never measured, or the file is damaged.
std::optional<MachineLimits> keptLimits(const Cpu &machine);
/// The file appears complete or not at all.
Status keepLimits(const MachineLimits &limits, const Cpu &machine);

} // namespace tensmith::targets::cpu
