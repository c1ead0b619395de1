// What lies in a function's arenas, one in the host's memory and one in each device's.
//
// While a function is built, each of its values gets a buffer, alone or with others that are
// written over one another. Buffers get their places when the plan is complete: only then is it
// known in which memory a value lies, and which instructions may go on at the same time.
#pragma once

#include "compiler/vm/MemoryPlan.h"

#include "llvm/ADT/BitVector.h"

namespace tensmith::vm {

struct Arena {
  struct Placed {
    uint32_t value;
    size_t buffer;
    int64_t offset; // in the buffer
    bool isBounded; // its size is told later, and the buffer's is a bound of it
  };

  Expressions expressions;
  std::vector<Buffer> buffers;
  std::vector<Placed> placed;

  /// A value that lies in the buffer from now on, from its first byte.
  void place(uint32_t value, size_t buffer);
  /// Of each value of the function: its buffer, or kNone.
  std::vector<size_t> buffersOfValues(const plan::FunctionT &function) const;
  static constexpr size_t kNone = SIZE_MAX;
};

/// What is summed up over the functions of a plan; sizes as in MemoryPlan.
struct ArenaTotals {
  int64_t buffers = 0, plannedBytes = 0, aliveBytes = 0, separateBytes = 0;
};

/// Gives buffers and values their offsets. With devices, `before` has for each instruction those
/// that are done before it begins; without, lifetimes are the buffers' intervals.
void layOutArena(plan::FunctionT &function, Arena &arena, size_t devices,
                 std::span<const llvm::BitVector> before, ArenaTotals &totals);

} // namespace tensmith::vm
