// Allocation by the C library, with the alignment and the advice that large blocks deserve.
#include "runtime/Memory.h"

#include <cstdlib>
#include <sys/mman.h>

namespace tensmith::runtime {
namespace {

constexpr int64_t kHugePage = int64_t(2) << 20;
constexpr int64_t kLargest = int64_t(1) << 47; // more than any address space holds

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace

void *allocateBlock(int64_t bytes) {
  if (bytes < 0 || bytes > kLargest)
    return nullptr;
  bool large = bytes >= 2 * kHugePage;
  int64_t alignment = large ? kHugePage : kAlignment;
  int64_t size = roundUp(bytes ? bytes : 1, large ? kHugePage : kAlignment);
  void *block = std::aligned_alloc(size_t(alignment), size_t(size));
  if (block && large)
    madvise(block, size_t(size), MADV_HUGEPAGE);
  return block;
}

void freeBlock(void *block) { std::free(block); }

void Block::release() {
  freeBlock(std::exchange(data_, nullptr));
  size_ = 0;
  charge_ = Charge();
}

bool Block::reserve(int64_t bytes) {
  if (bytes <= size_)
    return true;
  release();
  if (!charge_.take(bytes))
    return false;
  data_ = allocateBlock(bytes);
  size_ = data_ ? bytes : 0;
  return data_ != nullptr;
}

} // namespace tensmith::runtime
