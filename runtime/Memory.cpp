// Allocation by the C library, with the alignment and the advice that large blocks deserve.
#include "runtime/Memory.h"

#include <bit>
#include <cstdlib>
#include <sys/mman.h>

namespace tensmith::runtime {
namespace {

constexpr int64_t kHugePage = int64_t(2) << 20;
constexpr int64_t kLeastClassed = int64_t(64) << 10;
/// More than any address space holds.
constexpr int64_t kLargest = sizeof(void *) == 8 ? int64_t(1) << 47 : int64_t(1) << 30;

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// To one of eight sizes between a power of two and the next. A value that grows from call to call
/// would else be larger each time than all that was ever freed, for which the C library asks the
/// system for new pages, and gives them back.
int64_t sizeClass(int64_t bytes) {
  if (bytes < kLeastClassed)
    return bytes;
  return roundUp(bytes, int64_t(std::bit_floor(uint64_t(bytes))) / 8);
}

} // namespace

void *allocateBlock(int64_t bytes) {
  if (bytes < 0 || bytes > kLargest)
    return nullptr;
  bytes = sizeClass(bytes);
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
