// Arenas that several sessions share, since not all of them run at once: MXNet's shared pool of
// bound graphs (Chen et al., 2015, section 3.1). A run takes a block and gives it back, so that a
// pool holds as many blocks as there were runs at the same time, each as large as the largest run
// that had it.
//
// Blocks are handed out last in, first out: a function that calls another gives its block back
// after that one, and so gets the same again. Invariant: a block has one owner, the pool or a
// frame.
#pragma once

#include "runtime/Memory.h"

#include <mutex>
#include <vector>

namespace tensmith::runtime {

class MemoryPool {
public:
  /// Of any size; empty where none waits.
  Block take();
  void give(Block block);
  /// Of the blocks that wait: of all, while nobody runs.
  int64_t bytes() const;

private:
  mutable std::mutex mutex_;
  std::vector<Block> idle_;
};

} // namespace tensmith::runtime
