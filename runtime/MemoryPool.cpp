// A stack of blocks.
#include "runtime/MemoryPool.h"

#include <new>

namespace tensmith::runtime {

Block MemoryPool::take() {
  std::lock_guard lock(mutex_);
  if (idle_.empty())
    return {};
  Block block = std::move(idle_.back());
  idle_.pop_back();
  return block;
}

void MemoryPool::give(Block block) {
  if (!block.data())
    return;
  std::lock_guard lock(mutex_);
  try {
    idle_.push_back(std::move(block));
  } catch (const std::bad_alloc &) { // it goes, and the next run takes another
  }
}

int64_t MemoryPool::bytes() const {
  std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const Block &block : idle_)
    bytes += block.size();
  return bytes;
}

} // namespace tensmith::runtime
