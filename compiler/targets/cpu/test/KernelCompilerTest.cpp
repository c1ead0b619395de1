// That kernels are compiled once, are found in the cache again, and are told apart there.
#include "compiler/targets/cpu/test/KernelHarness.h"

#include <fstream>

namespace fs = std::filesystem;

namespace tensmith::targets::cpu {
namespace {

fs::path onlyEntry(const std::string &folder) {
  auto first = fs::directory_iterator(folder);
  return first == fs::directory_iterator() ? fs::path() : first->path();
}

const std::string kDouble = elementwise("f32", "f32", "%y = arith.addf %x, %x : f32");
const std::string kSquare = elementwise("f32", "f32", "%y = arith.mulf %x, %x : f32");

TEST(KernelCompiler, EqualKernelsAreCompiledOnceAndCached) {
  TemporaryFolder folder;
  CodeOptions options;
  options.cacheFolder = folder.path();
  int64_t reports = 0, total = 0;
  options.progress = [&](int64_t done, int64_t of) { reports = done, total = of; };
  std::vector<KernelSource> sources = {{"a", kDouble}, {"b", kSquare}, {"c", kDouble}};
  Cpu machine = hostCpu();
  auto cold = compileKernels(sources, machine, options);
  ASSERT_TRUE(cold.ok()) << cold.status().message();
  EXPECT_EQ(cold->objects.size(), 2u);
  EXPECT_EQ(cold->symbols[0], cold->symbols[2]);
  EXPECT_NE(cold->symbols[0], cold->symbols[1]);
  EXPECT_EQ(cold->fromCache, 0);
  EXPECT_EQ(reports, 2);
  EXPECT_EQ(total, 2);
  auto warm = compileKernels(sources, machine, options);
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ(warm->fromCache, 2);
  EXPECT_EQ(warm->symbols, cold->symbols);
  EXPECT_EQ(warm->objects[0].bytes, cold->objects[0].bytes);

  std::ofstream(onlyEntry(folder.path()), std::ios::binary) << "damage";
  auto mended = compileKernels(sources, machine, options);
  ASSERT_TRUE(mended.ok());
  EXPECT_EQ(mended->fromCache, 1);
  EXPECT_EQ(mended->objects[0].bytes, cold->objects[0].bytes);

  auto other = compileKernels(sources, *parseCpu("x86-64-v2"), options);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->fromCache, 0) << "another machine's code was taken";
}

// Hosts differ in their caches, also from one container to the next: what kernels take from those
// is in their text.
TEST(KernelCompiler, CachesOfTheMachineDoNotChangeTheKey) {
  CodeOptions options;
  options.cacheFolder.clear();
  std::vector<KernelSource> sources = {{"a", kDouble}};
  Cpu machine = hostCpu(), larger = machine;
  larger.l1Bytes *= 2, larger.l2Bytes *= 2;
  auto one = compileKernels(sources, machine, options),
       other = compileKernels(sources, larger, options);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->symbols, other->symbols);
}

TEST(KernelCompiler, NamesTheKernelThatFails) {
  CodeOptions options;
  options.cacheFolder.clear();
  std::vector<KernelSource> sources = {{"good", kDouble}, {"node 'broken'", "this is no module"}};
  auto result = compileKernels(sources, hostCpu(), options);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("node 'broken'"), std::string::npos)
      << result.status().message();
}

} // namespace
} // namespace tensmith::targets::cpu
