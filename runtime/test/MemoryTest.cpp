// Blocks of sizes that change: what one that grew by a little was freed of serves the next.
#include "runtime/Memory.h"

#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <memory>
#include <utility>
#include <vector>

namespace tensmith::runtime {
namespace {

constexpr int64_t kMebibyte = int64_t(1) << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHER_ALLOCATOR
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OTHER_ALLOCATOR
#endif
#endif

/// All blocks come from the C library's heap, as they do once a large one was freed.
void keepOnTheHeap() {
  mallopt(M_MMAP_THRESHOLD, 64 * int(kMebibyte));
  mallopt(M_TRIM_THRESHOLD, 64 * int(kMebibyte));
}

#ifndef OTHER_ALLOCATOR // a sanitizer's keeps what was freed for a while
TEST(Memory, BlocksOfNearbySizesAreAlike) {
  keepOnTheHeap();
  void *first = allocateBlock(kMebibyte + 1);
  ASSERT_NE(first, nullptr);
  void *other = allocateBlock(kMebibyte); // behind it
  freeBlock(first);
  for (int64_t bytes : {kMebibyte + 4096, kMebibyte * 9 / 8}) {
    void *block = allocateBlock(bytes);
    EXPECT_EQ(block, first) << bytes;
    freeBlock(block);
  }
  freeBlock(other);
}

// With others in between, each turn would else take new memory: hundreds of mebibytes here.
TEST(Memory, AValueThatGrowsIsWhereItWasBefore) {
  keepOnTheHeap();
  std::vector<std::unique_ptr<char[]>> between;
  void *last = allocateBlock(kMebibyte / 8);
  size_t before = mallinfo2().arena;
  for (int64_t turn = 1; turn <= 1000; ++turn) {
    void *next = allocateBlock(kMebibyte / 8 + turn * 1024);
    between.push_back(std::make_unique<char[]>(48));
    freeBlock(std::exchange(last, next));
  }
  freeBlock(last);
  EXPECT_LT(mallinfo2().arena - before, size_t(32 * kMebibyte));
}
#endif

#ifndef OTHER_ALLOCATOR
// Breaks if what was freed goes back to the system, or more is kept than may be.
TEST(Memory, AFreedBlockServesTheNextOfItsSize) {
  void *first = allocateBlock(9 * kMebibyte), *other = allocateBlock(3 * kMebibyte);
  ASSERT_TRUE(first && other);
  freeBlock(first);
  freeBlock(other);
  int64_t kept = keptBlockBytes();
  EXPECT_GE(kept, 12 * kMebibyte);
  EXPECT_EQ(allocateBlock(9 * kMebibyte), first);
  EXPECT_EQ(allocateBlock(3 * kMebibyte), other);
  EXPECT_LT(keptBlockBytes(), kept);
  freeBlock(first);
  freeBlock(other);
  std::vector<void *> many;
  for (int i = 0; i < 200; ++i)
    many.push_back(allocateBlock(kMebibyte));
  for (void *block : many)
    freeBlock(block);
  EXPECT_LE(keptBlockBytes(), 64 * kMebibyte);
}

// Breaks if a loop whose values grow leaves one block of each size behind. In a process of its own,
// since what others had in use counts.
TEST(Memory, NoMoreIsKeptThanWasInUseAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto grow = [] {
    int64_t kept = 0;
    for (int64_t size = kMebibyte / 8; size < 4 * kMebibyte; size = size * 5 / 4) {
      freeBlock(allocateBlock(size));
      kept = std::max(kept, keptBlockBytes());
    }
    std::exit(kept < 5 * kMebibyte ? 0 : 1);
  };
  EXPECT_EXIT(grow(), testing::ExitedWithCode(0), "");
}
#endif

TEST(Memory, BlocksAreAligned) {
  for (int64_t bytes : {int64_t(0), int64_t(1), int64_t(100), kMebibyte, 5 * kMebibyte}) {
    void *block = allocateBlock(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % (bytes > 4 * kMebibyte ? 2 * kMebibyte : 64),
              0u);
    std::memset(block, 1, size_t(bytes));
    freeBlock(block);
  }
  freeBlock(nullptr);
}

} // namespace
} // namespace tensmith::runtime
