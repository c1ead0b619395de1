// Fibers: calls that a machine has begun and does in turns; see Batches.cpp.
#pragma once

#include "runtime/Machine.h"

#include <deque>

namespace tensmith::runtime {

/// A call with stacks of its own.
struct Fiber {
  CellStack cells;
  std::vector<Machine::Activation> activations;
  Fiber *parent = nullptr; // null: the stacks that the calls were forked from
  uint32_t result = 0;     // the register of the parent, or the number of the call
  uint32_t pending = 0;    // calls that it waits for
  int64_t depth = 0;       // of activations below its first
  bool alone = false;      // its invocation is to be done by itself
};

struct Fibers {
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber *> free;
  std::deque<Fiber *> runnable;              // the next at the end
  std::vector<std::vector<Fiber *>> waiting; // by the function that they are about to invoke
  std::vector<Cell> results;                 // of the calls that were forked first
  size_t pending = 0;                        // of those
  std::vector<Passed> passed;
  std::vector<std::unique_ptr<ForkTask>> parts; // that were given away, BatchParts.cpp
  uint32_t forks = 0;

  Fiber *take() {
    if (free.empty()) {
      all.push_back(std::make_unique<Fiber>());
      return all.back().get();
    }
    Fiber *fiber = free.back();
    free.pop_back();
    return fiber;
  }
  size_t live() const { return all.size() - free.size(); }
  void clear();
};

} // namespace tensmith::runtime
