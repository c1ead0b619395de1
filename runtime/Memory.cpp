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

/// What the C library gave, before a block. Its own aligned allocation asks for more than it keeps,
/// so that a block that was freed is too small for the next of its size: of a value that grows from
/// call to call, with others allocated in between, none would ever be used again.
void *&allocationOf(void *block) { return static_cast<void **>(block)[-1]; }

} // namespace

void *allocateBlock(int64_t bytes) {
  if (bytes < 0 || bytes > kLargest)
    return nullptr;
  bytes = sizeClass(bytes);
  bool large = bytes >= 2 * kHugePage;
  int64_t alignment = large ? kHugePage : kAlignment;
  int64_t size = roundUp(bytes ? bytes : 1, alignment);
  void *allocation = std::malloc(size_t(size + alignment) + sizeof(void *));
  if (!allocation)
    return nullptr;
  auto first = reinterpret_cast<uintptr_t>(allocation) + sizeof(void *);
  auto *block =
      reinterpret_cast<void *>((first + uintptr_t(alignment) - 1) & -uintptr_t(alignment));
  allocationOf(block) = allocation;
  if (large)
    madvise(block, size_t(size), MADV_HUGEPAGE);
  return block;
}

void freeBlock(void *block) {
  if (block)
    std::free(allocationOf(block));
}

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
