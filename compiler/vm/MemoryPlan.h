// Places of buffers in an arena: those whose lifetimes don't meet share memory.
//
// Where all sizes are constants, each buffer gets an offset (base/ArenaPlacement.h). Where sizes
// are symbolic no gap can be compared before they are known. Buffers are assigned to slots then,
// whose size is the largest of theirs, in order of their beginning; or, where slots would hold
// noticeably more than is alive, the run places the buffers when it is told other sizes than
// before.
//
// Where instructions go on at the same time, on several streams, the order in which they stand says
// less than who waits for whom: whoever plans such an arena says which buffers meet.
#pragma once

#include "base/ArenaPlacement.h"
#include "compiler/vm/Expressions.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tensmith::vm {

struct Buffer {
  uint32_t bytes;      // expression, a multiple of 64
  size_t first, last;  // instructions at which it is alive, both inclusive
  uint32_t offset = 0; // expression: the plan
  int64_t values = 1;  // that lie in it, each written over the one before

  Lifetime lifetime() const { return {first, last}; }
};

struct MemoryPlan {
  uint32_t bytes = 0; // expression: of the arena
  /// With every symbol at graph::kOpenSize: planned, and with memory of its own for each value.
  int64_t plannedBytes = 0, separateBytes = 0;
  int64_t aliveBytes = 0; // at a time, at most: no plan takes less
};

/// Whether two buffers, by number, may be in use at the same time. Those that are by their
/// intervals must be; of three in the order of `first`, where the second doesn't meet the first nor
/// the third the second, the third doesn't meet the first.
using Meet = llvm::function_ref<bool(size_t, size_t)>;

/// Without `meet`, by the intervals alone.
MemoryPlan planMemory(std::vector<Buffer> &buffers, Expressions &expressions, Meet meet = nullptr);

} // namespace tensmith::vm
