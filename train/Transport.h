// What processes that train together ask of one another, and what carries it.
//
// Each begins the same collectives in the same order; nothing else is agreed on. One thread at a
// time calls a transport (Processes.h); one of them makes it and ends it.
#pragma once

#include "base/DataType.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace tensmith::train {

/// Of vectors that all processes have: `count` elements at `data`, cut into as many equal parts as
/// there are processes, in their order.
struct Collective {
  enum class Kind {
    Sum,      // all get the sum
    SumParts, // each gets the sum of its own part, in `part`, be it among the data; they are lost
    Gather,   // all get each part as its process has it
    Collect,  // the first process gets each part as its process has it, in `part`
  };
  Kind kind = Kind::Sum;
  DataType type = DataType::F32; // or f64
  std::byte *data = nullptr;     // of Collect null but for the first process
  int64_t count = 0;
  std::byte *part = nullptr;
};

class Transport {
public:
  virtual ~Transport() = default; // when all are done
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether the processes of this machine have a CPU for each of their threads, of which this one
  /// has so many. All ask at once, before anything else.
  virtual bool hasCpusFor(int threads) = 0;
  /// Its number. The memory must stay until it is done.
  virtual int64_t begin(const Collective &collective) = 0;
  /// Whether it is done, and so forgotten; moves it on where it isn't. Throws Failure.
  virtual bool done(int64_t number) = 0;
  /// "process 1": which of the others, most likely, all wait for.
  virtual std::string missing() = 0;
  /// Ends all processes, this one included.
  [[noreturn]] virtual void abort(int status) = 0;
};

/// What the library for MPI exports under this name.
inline constexpr const char *kOpenMpi = "tensmith_open_mpi";
using OpenTransport = Transport *(*)();

/// By what that library does operators of modules (runtime/LibraryAbi.h): a sum in place, in its
/// turn among the other collectives. False where it fails.
struct OperatorSums {
  int processes = 1;
  void *context = nullptr;
  bool (*sum)(void *context, DataType type, std::byte *data, int64_t count) = nullptr;
};
/// Until it is told, a module's operators are done as for one process, where that is all there is.
inline constexpr const char *kSumOperatorsBy = "tensmith_sum_operators_by";
using SumOperatorsBy = void (*)(const OperatorSums &);

/// Of how many this process was started as one, by mpirun or its like; 0 where MPI has to be asked:
/// a resource manager that speaks PMIx tells a process its rank, alone or not.
inline int64_t startedProcesses() {
  bool isRanked = std::getenv("PMIX_RANK") != nullptr;
  const char *size = std::getenv("OMPI_COMM_WORLD_SIZE");
  size = size ? size : std::getenv("PMI_SIZE");
  if (!size && isRanked) // programs that know of no others have it, too
    size = std::getenv("SLURM_STEP_NUM_TASKS");
  return size ? std::max<int64_t>(0, std::strtoll(size, nullptr, 10)) : isRanked ? 0 : 1;
}

} // namespace tensmith::train
