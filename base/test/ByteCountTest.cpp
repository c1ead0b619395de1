// Numbers of bytes in words: each unit, and what is none.
#include "base/ByteCount.h"

#include <gtest/gtest.h>

using tensmith::parseByteCount;

TEST(ByteCount, HasUnits) {
  for (auto [text, bytes] : {std::pair("4096", int64_t(4096)), std::pair("2GiB", int64_t(2) << 30),
                             std::pair("1.5 kb", int64_t(1500)), std::pair("3K", int64_t(3000)),
                             std::pair("7Mi", int64_t(7) << 20), std::pair("0B", int64_t(0)),
                             std::pair("8TB", int64_t(8e12))})
    EXPECT_EQ(parseByteCount(text), bytes) << text;
}

TEST(ByteCount, OthersAreNone) {
  for (const char *text : {"", "GiB", "abc", "1e9", "-1", "nan", "1 2", "5 i", "5kbb", "5kii",
                           "8388608TiB", "99999999999999999999"})
    EXPECT_EQ(parseByteCount(text), std::nullopt) << text;
}
