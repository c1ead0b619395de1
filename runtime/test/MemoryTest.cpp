// Blocks of sizes that change: what one that grew by a little was freed of serves the next.
#include "runtime/Memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace tensmith::runtime {
namespace {

TEST(Memory, BlocksOfNearbySizesAreAlike) {
  constexpr int64_t kMebibyte = int64_t(1) << 20;
  for (int64_t bytes : {kMebibyte + 1, kMebibyte + 4096, kMebibyte * 9 / 8}) {
    void *block = allocateBlock(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(malloc_usable_size(block), size_t(kMebibyte * 9 / 8));
    EXPECT_LT(malloc_usable_size(block), size_t(kMebibyte * 10 / 8));
    freeBlock(block);
  }
}

} // namespace
} // namespace tensmith::runtime
