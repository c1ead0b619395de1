// Allocation by the C library, with the alignment and the advice that large blocks deserve.
#include "runtime/Memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
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

/// What precedes a block: what the C library gave, and of how many bytes the block is. The
/// library's own aligned allocation asks for more than it keeps, so that a block that was freed is
/// too small for the next of its size: of a value that grows from call to call, with others
/// allocated in between, none would ever be used again.
struct Header {
  void *allocation;
  int64_t size;
};
Header &headerOf(void *block) { return static_cast<Header *>(block)[-1]; }

/// Blocks that were freed, the last one behind. The oldest go where they are too many: what is kept
/// is never more than was in use at once. A loop whose stacks grow frees blocks of all sizes up to
/// the largest, which together are many times what it needs. Nobody waits for another thread:
/// whoever comes while one is here goes to the C library.
class KeptBlocks {
public:
  /// Bytes that are in use from now on, or no more.
  void use(int64_t bytes) {
    int64_t inUse = inUse_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    for (int64_t most = mostInUse_.load(std::memory_order_relaxed);
         inUse > most &&
         !mostInUse_.compare_exchange_weak(most, inUse, std::memory_order_relaxed);) {
    }
  }

  /// One of the size; null where there is none.
  void *take(int64_t size) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock)
      return nullptr;
    auto end = kept_.begin() + count_;
    auto found = std::find_if(std::make_reverse_iterator(end), kept_.rend(),
                              [&](const Kept &kept) { return kept.size == size; });
    return found == kept_.rend() ? nullptr : remove(std::prev(found.base()));
  }

  /// Whether it is kept.
  bool give(void *block, int64_t size) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || size > mostOfProcess() / 2)
      return false;
    int64_t most = std::min(mostOfProcess(), mostInUse_.load(std::memory_order_relaxed));
    while (count_ == kMostBlocks || bytes_ + size > most)
      std::free(headerOf(remove(kept_.begin())).allocation);
    kept_[size_t(count_++)] = {block, size};
    bytes_ += size;
    return true;
  }

  /// The C library gets all of them.
  void clear() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    while (lock && count_ > 0)
      std::free(headerOf(remove(kept_.begin())).allocation);
  }

  int64_t bytes() {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

  /// Blocks are freed until the very end, so it has none.
  static KeptBlocks &ofProcess() {
    alignas(KeptBlocks) static std::byte storage[sizeof(KeptBlocks)];
    static auto *kept = new (storage) KeptBlocks;
    return *kept;
  }

private:
  struct Kept {
    void *block;
    int64_t size;
  };
  static constexpr int64_t kMostBlocks = 64;
  using Place = std::array<Kept, kMostBlocks>::iterator;

  /// None where there is not even the memory to find out.
  static int64_t mostOfProcess() {
    static const int64_t bytes = [] {
      try {
        return std::min(int64_t(64) << 20, availableMemory() / 32);
      } catch (const std::bad_alloc &) {
        return int64_t(0);
      }
    }();
    return bytes;
  }
  void *remove(Place place) {
    Kept removed = *place;
    std::move(place + 1, kept_.begin() + count_, place);
    --count_;
    bytes_ -= removed.size;
    return removed.block;
  }

  std::atomic<int64_t> inUse_ = 0, mostInUse_ = 0;
  std::mutex mutex_;
  std::array<Kept, kMostBlocks> kept_;
  int64_t count_ = 0, bytes_ = 0;
};

} // namespace

void *allocateBlock(int64_t bytes) {
  if (bytes < 0 || bytes > kLargest)
    return nullptr;
  bytes = sizeClass(bytes);
  bool large = bytes >= 2 * kHugePage;
  int64_t alignment = large ? kHugePage : kAlignment;
  int64_t size = roundUp(bytes ? bytes : 1, alignment);
  bool mayBeKept = kKeepsFreedBlocks && size >= kLeastClassed;
  if (void *kept = mayBeKept ? KeptBlocks::ofProcess().take(size) : nullptr) {
    KeptBlocks::ofProcess().use(size);
    return kept;
  }
  size_t whole = size_t(size + alignment) + sizeof(Header);
  void *allocation = std::malloc(whole);
  if (!allocation && kKeepsFreedBlocks) {
    KeptBlocks::ofProcess().clear();
    allocation = std::malloc(whole);
  }
  if (!allocation)
    return nullptr;
  auto first = reinterpret_cast<uintptr_t>(allocation) + sizeof(Header);
  auto *block =
      reinterpret_cast<void *>((first + uintptr_t(alignment) - 1) & -uintptr_t(alignment));
  headerOf(block) = {allocation, size};
  if (mayBeKept)
    KeptBlocks::ofProcess().use(size);
  if (large)
    madvise(block, size_t(size), MADV_HUGEPAGE);
  return block;
}

void freeBlock(void *block) {
  if (!block)
    return;
  int64_t size = headerOf(block).size;
  bool mayBeKept = kKeepsFreedBlocks && size >= kLeastClassed;
  if (mayBeKept)
    KeptBlocks::ofProcess().use(-size);
  if (!mayBeKept || !KeptBlocks::ofProcess().give(block, size))
    std::free(headerOf(block).allocation);
}

int64_t keptBlockBytes() { return KeptBlocks::ofProcess().bytes(); }

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
