// That the cache gives back what it was given and nothing else, and never stands in the way.
#include "compiler/target/cpu/test/KernelHarness.h"

#include <fstream>
#include <thread>

namespace fs = std::filesystem;

namespace tensmith::target::cpu {
namespace {

fs::path onlyEntry(const std::string &folder) {
  auto first = fs::directory_iterator(folder);
  return first == fs::directory_iterator() ? fs::path() : first->path();
}

TEST(KernelCache, FindsWhatWasInserted) {
  TemporaryFolder folder;
  KernelCache cache(folder.path() + "/deep/er");
  Hash128 key = hash128("key"), other = hash128("other");
  EXPECT_FALSE(cache.find(key));
  cache.insert(key, "contents");
  EXPECT_EQ(cache.find(key), "contents");
  EXPECT_FALSE(cache.find(other));
  cache.insert(key, "");
  EXPECT_EQ(cache.find(key), "");
}

// Breaks if any byte of an entry may be wrong without the entry being refused.
TEST(KernelCache, EveryFlippedByteAndTruncationIsNoticed) {
  TemporaryFolder folder;
  KernelCache cache(folder.path());
  Hash128 key = hash128("key");
  cache.insert(key, "some contents");
  fs::path path = onlyEntry(folder.path());
  std::string whole(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(whole.data(), std::streamsize(whole.size()));
  auto put = [&](const std::string &bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = char(bad[at] ^ 0x40);
    put(bad);
    EXPECT_FALSE(cache.find(key)) << "byte " << at;
    put(whole.substr(0, at));
    EXPECT_FALSE(cache.find(key)) << "cut at " << at;
  }
  put(whole);
  EXPECT_EQ(cache.find(key), "some contents");
}

TEST(KernelCache, EvictsTheLeastRecentlyUsed) {
  TemporaryFolder folder;
  KernelCache cache(folder.path(), 5000);
  auto age = [&](const Hash128 &key, int hours) {
    fs::last_write_time(folder.path() + "/" + toHex(key) + ".kernel",
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  Hash128 used = hash128("used"), stale = hash128("stale"), fresh = hash128("fresh");
  for (const Hash128 &key : {used, stale, fresh})
    cache.insert(key, std::string(2000, 'x'));
  age(used, 9);
  age(stale, 5);
  EXPECT_TRUE(cache.find(used)); // makes it the latest
  cache.trim();
  EXPECT_TRUE(cache.find(used));
  EXPECT_TRUE(cache.find(fresh));
  EXPECT_FALSE(cache.find(stale));
}

TEST(KernelCache, AnUnusableFolderWarnsOnce) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "not a folder";
  int warnings = 0;
  KernelCache cache(folder.path() + "/file/below", KernelCache::kDefaultLimit,
                    [&](const std::string &) { ++warnings; });
  for (int turn = 0; turn < 3; ++turn)
    cache.insert(hash128("key"), "contents");
  EXPECT_EQ(warnings, 1);
  EXPECT_FALSE(cache.find(hash128("key")));
}

// Breaks if a reader can see a half-written entry.
TEST(KernelCache, SharedByWritersAndReaders) {
  TemporaryFolder folder;
  Hash128 key = hash128("key");
  std::string contents(100000, 'c');
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&] {
      KernelCache cache(folder.path());
      for (int turn = 0; turn < 50; ++turn) {
        cache.insert(key, contents);
        wrong += cache.find(key) != contents;
      }
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

const std::string kDouble = elementwise("f32", "f32", "%y = arith.addf %x, %x : f32");
const std::string kSquare = elementwise("f32", "f32", "%y = arith.mulf %x, %x : f32");

TEST(KernelCompiler, EqualKernelsAreCompiledOnceAndCached) {
  TemporaryFolder folder;
  KernelCompilerOptions options;
  options.cacheFolder = folder.path();
  int64_t reports = 0, total = 0;
  options.progress = [&](int64_t done, int64_t of) { reports = done, total = of; };
  std::vector<KernelSource> sources = {{"a", kDouble}, {"b", kSquare}, {"c", kDouble}};
  Machine machine = hostMachine();
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

  auto other = compileKernels(sources, *parseMachine("x86-64-v2"), options);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->fromCache, 0) << "another machine's code was taken";
}

// Hosts differ in their caches, also from one container to the next: what kernels take from those
// is in their text.
TEST(KernelCompiler, CachesOfTheMachineDoNotChangeTheKey) {
  KernelCompilerOptions options;
  options.cacheFolder.clear();
  std::vector<KernelSource> sources = {{"a", kDouble}};
  Machine machine = hostMachine(), larger = machine;
  larger.l1Bytes *= 2, larger.l2Bytes *= 2;
  auto one = compileKernels(sources, machine, options),
       other = compileKernels(sources, larger, options);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->symbols, other->symbols);
}

TEST(KernelCompiler, NamesTheKernelThatFails) {
  KernelCompilerOptions options;
  options.cacheFolder.clear();
  std::vector<KernelSource> sources = {{"good", kDouble}, {"node 'broken'", "this is no module"}};
  auto result = compileKernels(sources, hostMachine(), options);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("node 'broken'"), std::string::npos)
      << result.status().message();
}

} // namespace
} // namespace tensmith::target::cpu
