// Blocks of host memory for tensors and arenas.
//
// Aligned to a cache line and the widest vector; large blocks to a huge page, and marked for it,
// since walking a network's activations in 4 KiB pages costs a noticeable part of the time in TLB
// misses. What is freed is kept for the next block of its size, up to a limit for the process: a
// value whose size only the run tells, and a result that the caller lets go of, would else cost the
// pages of new memory in each run, which takes longer than a kernel that writes them.
#pragma once

#include "base/Budget.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tensmith::runtime {

inline constexpr int64_t kAlignment = 64;

/// Uninitialised; null where the memory can't be had. `bytes` may be 0 (a block of its own then).
void *allocateBlock(int64_t bytes);
void freeBlock(void *block);
/// Whether blocks that were freed may serve again: not where a sanitizer is to see each of them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kKeepsFreedBlocks = false;
#elif defined(__has_feature)
inline constexpr bool kKeepsFreedBlocks = !__has_feature(address_sanitizer) &&
                                          !__has_feature(thread_sanitizer) &&
                                          !__has_feature(memory_sanitizer);
#else
inline constexpr bool kKeepsFreedBlocks = true;
#endif
/// Of blocks that were freed and are kept, of all threads.
int64_t keptBlockBytes();

/// A block that grows: what is kept between runs. It is charged to the budget of whoever makes it
/// grow.
class Block {
public:
  Block() = default;
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  Block(Block &&other) noexcept
      : charge_(std::move(other.charge_)), data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Block &operator=(Block &&other) noexcept {
    std::swap(charge_, other.charge_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Block() { freeBlock(data_); }

  /// At least `bytes`, contents lost where it grows. False where the memory can't be had: it is
  /// empty then.
  bool reserve(int64_t bytes);
  void release();
  std::byte *data() const { return static_cast<std::byte *>(data_); }
  int64_t size() const { return size_; }

private:
  Charge charge_;
  void *data_ = nullptr;
  int64_t size_ = 0;
};

} // namespace tensmith::runtime
