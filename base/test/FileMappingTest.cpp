// Pages of mapped files that are dropped and read again.
#include "base/FileMapping.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace tensmith {
namespace {

int64_t sumOf(const MappedFile &file) {
  return std::transform_reduce(file.bytes.begin(), file.bytes.end(), int64_t(0), std::plus(),
                               [](std::byte each) { return int64_t(each); });
}

/// The size of the process's memory that is backed by files, in bytes.
int64_t residentOfFiles() {
  std::FILE *file = std::fopen("/proc/self/statm", "r");
  long all = 0, resident = 0, shared = 0;
  EXPECT_EQ(std::fscanf(file, "%ld %ld %ld", &all, &resident, &shared), 3);
  std::fclose(file);
  return int64_t(shared) * sysconf(_SC_PAGESIZE);
}

TEST(FileMapping, DroppedPagesAreReadAgain) {
  constexpr size_t kSize = 16 << 20;
  std::FILE *file = std::tmpfile();
  ASSERT_TRUE(file);
  std::vector<unsigned char> bytes(kSize);
  for (size_t i = 0; i < kSize; ++i)
    bytes[i] = static_cast<unsigned char>(i * 7 + i / 256);
  ASSERT_EQ(std::fwrite(bytes.data(), 1, kSize, file), kSize);
  std::fflush(file);
  int64_t wanted = std::accumulate(bytes.begin(), bytes.end(), int64_t(0));

  auto mapped = mapDescriptor(fileno(file), kSize, "file");
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(sumOf(*mapped), wanted);
  int64_t before = residentOfFiles();
  dropMappedPages();
  EXPECT_LE(residentOfFiles(), before - int64_t(kSize) / 2);
  EXPECT_EQ(sumOf(*mapped), wanted);

  mapped = MappedFile();
  dropMappedPages(); // of none
  std::fclose(file);
}

} // namespace
} // namespace tensmith
