// That the store gives back what it was given and nothing else, trusts nobody, and never stands in
// the way.
#include "cache/Store.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;

namespace tensmith::cache {
namespace {

/// A folder of the test's own, gone with it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "tensmith-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

constexpr int64_t kLimit = int64_t(1) << 30;

fs::path onlyEntry(const std::string &folder) {
  auto first = fs::directory_iterator(folder);
  return first == fs::directory_iterator() ? fs::path() : first->path();
}

mode_t modeOf(const fs::path &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TEST(Store, FindsWhatWasInserted) {
  TemporaryFolder folder;
  Store store(folder.path() + "/deep/er");
  Hash128 key = hash128("key"), other = hash128("other");
  EXPECT_FALSE(store.find(Kind::Kernel, key));
  EXPECT_TRUE(store.insert(Kind::Kernel, key, "contents"));
  EXPECT_EQ(store.find(Kind::Kernel, key), "contents");
  EXPECT_FALSE(store.find(Kind::Kernel, other));
  EXPECT_FALSE(store.find(Kind::Module, key)) << "an entry of another kind was taken";
  store.insert(Kind::Kernel, key, "");
  EXPECT_EQ(store.find(Kind::Kernel, key), "");
}

// Breaks if a file is not kept whole, or if its contents don't come first in the entry.
TEST(Store, AFileBecomesAnEntryThatCanBeMapped) {
  TemporaryFolder folder;
  std::string contents(1'000'003, 'x');
  contents[700'000] = 'y';
  std::ofstream(folder.path() + "/module.so", std::ios::binary) << contents;
  Store store(folder.path() + "/cache");
  Hash128 key = hash128("key");
  ASSERT_TRUE(store.insertFile(Kind::Module, key, folder.path() + "/module.so"));
  auto entry = store.open(Kind::Module, key);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->bytes(), contents.size());
  store.remove(Kind::Module, key);
  std::string read(contents.size(), '\0');
  std::ifstream(entry->path(), std::ios::binary).read(read.data(), std::streamsize(read.size()));
  EXPECT_EQ(read, contents) << "an entry that was open went with its name";
}

// Breaks if any byte of an entry may be wrong without the entry being refused, or if a wrong one
// stays.
TEST(Store, EveryFlippedByteAndTruncationIsNoticed) {
  TemporaryFolder folder;
  Store store(folder.path());
  Hash128 key = hash128("key");
  store.insert(Kind::Kernel, key, "some contents");
  fs::path path = onlyEntry(folder.path());
  std::string whole(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(whole.data(), std::streamsize(whole.size()));
  auto put = [&](const std::string &bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
    ::chmod(path.c_str(), 0600);
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = char(bad[at] ^ 0x40);
    put(bad);
    EXPECT_FALSE(store.find(Kind::Kernel, key)) << "byte " << at;
    EXPECT_FALSE(fs::exists(path));
    put(whole.substr(0, at));
    EXPECT_FALSE(store.verify(store.entries().at(0)));
    EXPECT_FALSE(store.find(Kind::Kernel, key)) << "cut at " << at;
  }
  put(whole);
  EXPECT_TRUE(store.verify(store.entries().at(0)));
  EXPECT_EQ(store.find(Kind::Kernel, key), "some contents");
}

// Breaks if an entry is taken under another's name.
TEST(Store, AnEntryBelongsToItsKey) {
  TemporaryFolder folder;
  Store store(folder.path());
  Hash128 key = hash128("key"), other = hash128("other");
  store.insert(Kind::Kernel, key, "contents");
  fs::rename(onlyEntry(folder.path()), folder.path() + "/" + toHex(other) + ".kernel");
  EXPECT_FALSE(store.find(Kind::Kernel, other));
}

TEST(Store, EvictsTheLeastRecentlyUsed) {
  TemporaryFolder folder;
  Store store(folder.path(), 5000);
  auto age = [&](const Hash128 &key, int hours) {
    fs::last_write_time(folder.path() + "/" + toHex(key) + ".kernel",
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  Hash128 used = hash128("used"), stale = hash128("stale"), fresh = hash128("fresh");
  for (const Hash128 &key : {used, stale, fresh})
    store.insert(Kind::Kernel, key, std::string(2000, 'x'));
  age(used, 9);
  age(stale, 5);
  EXPECT_TRUE(store.find(Kind::Kernel, used)); // makes it the latest
  store.trim();
  EXPECT_TRUE(store.find(Kind::Kernel, used));
  EXPECT_TRUE(store.find(Kind::Kernel, fresh));
  EXPECT_FALSE(store.find(Kind::Kernel, stale));
  EXPECT_EQ(store.prune(0).size(), 2u);
  EXPECT_TRUE(store.entries().empty());
}

// Breaks if a folder is looked through at each insertion, which takes as long as it has entries, or
// no more after the first.
TEST(Store, AFolderIsLookedThroughOnceEnoughIsNew) {
  TemporaryFolder folder;
  std::string stale = folder.path() + "/of-a-crash.part";
  auto isLookedThrough = [&](int number, size_t bytes) {
    std::ofstream(stale) << "unfinished";
    fs::last_write_time(stale, fs::file_time_type::clock::now() - std::chrono::hours(2));
    Store store(folder.path(), 100'000); // each compilation has a store of its own
    store.insert(Kind::Kernel, hash128(std::to_string(number)), std::string(bytes, 'x'));
    store.trim();
    return !fs::exists(stale);
  };
  EXPECT_TRUE(isLookedThrough(0, 1000)) << "others may have filled it before";
  EXPECT_FALSE(isLookedThrough(1, 6000));
  EXPECT_TRUE(isLookedThrough(2, 8000)) << "more than an eighth of the room is new";
  EXPECT_FALSE(isLookedThrough(3, 1000));
  for (int number = 4; number < 40; ++number)
    isLookedThrough(number, 6000);
  int64_t total = 0;
  for (const EntryFile &entry : Store(folder.path()).entries())
    total += entry.bytes;
  EXPECT_LE(total, 100'000);
}

// Breaks if a module that the limit has no room for drives everything else out.
TEST(Store, WhatIsLargerThanTheLimitIsNotKept) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/module.so") << std::string(5000, 'x');
  Store store(folder.path() + "/cache", 5000);
  store.insert(Kind::Kernel, hash128("key"), "contents");
  EXPECT_FALSE(store.insertFile(Kind::Module, hash128("key"), folder.path() + "/module.so"));
  store.trim();
  EXPECT_TRUE(store.find(Kind::Kernel, hash128("key")));
}

TEST(Store, AnUnusableFolderWarnsOnce) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "not a folder";
  int warnings = 0;
  Store store(folder.path() + "/file/below", kLimit, [&](const std::string &) { ++warnings; });
  for (int turn = 0; turn < 3; ++turn)
    EXPECT_FALSE(store.insert(Kind::Kernel, hash128("key"), "contents"));
  EXPECT_EQ(warnings, 1);
  EXPECT_FALSE(store.find(Kind::Kernel, hash128("key")));
}

TEST(Store, ItsFolderAndEntriesAreTheUsersAlone) {
  TemporaryFolder folder;
  mode_t before = ::umask(0);
  Store store(folder.path() + "/cache");
  store.insert(Kind::Module, hash128("key"), "contents");
  ::umask(before);
  EXPECT_EQ(modeOf(folder.path() + "/cache"), 0700u);
  EXPECT_EQ(modeOf(onlyEntry(folder.path() + "/cache")), 0600u);
}

// Breaks if code is taken from a folder that others can put some into.
TEST(Store, AFolderThatOthersCanWriteIsRefusedInWords) {
  TemporaryFolder folder;
  Hash128 key = hash128("key");
  Store(folder.path()).insert(Kind::Kernel, key, "contents");
  for (mode_t mode : {0770, 0702, 0777}) {
    ::chmod(folder.path().c_str(), mode);
    std::string said;
    Store store(folder.path(), kLimit, [&](const std::string &warning) { said = warning; });
    EXPECT_FALSE(store.find(Kind::Kernel, key));
    EXPECT_FALSE(store.insert(Kind::Kernel, hash128("other"), "contents"));
    EXPECT_NE(said.find("others may write to it"), said.npos) << said;
    EXPECT_NE(said.find(folder.path()), said.npos) << said;
  }
  ::chmod(folder.path().c_str(), 0700);
  EXPECT_TRUE(Store(folder.path()).find(Kind::Kernel, key));
}

TEST(Store, AFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give a folder away";
  TemporaryFolder folder;
  Hash128 key = hash128("key");
  Store(folder.path()).insert(Kind::Kernel, key, "contents");
  ASSERT_EQ(::chown(folder.path().c_str(), 12345, 12345), 0);
  std::string said;
  Store store(folder.path(), kLimit, [&](const std::string &warning) { said = warning; });
  EXPECT_FALSE(store.find(Kind::Kernel, key));
  EXPECT_NE(said.find("another user"), said.npos) << said;
}

// Breaks if an entry is taken that someone else could have written, or that lies elsewhere.
TEST(Store, EntriesThatOthersCanWriteAndLinksAreNotTaken) {
  TemporaryFolder folder;
  Store store(folder.path() + "/cache");
  Hash128 key = hash128("key");
  store.insert(Kind::Kernel, key, "contents");
  fs::path path = onlyEntry(folder.path() + "/cache");
  ::chmod(path.c_str(), 0666);
  EXPECT_FALSE(store.find(Kind::Kernel, key));
  store.insert(Kind::Kernel, key, "contents");
  fs::rename(path, folder.path() + "/elsewhere");
  fs::create_symlink(folder.path() + "/elsewhere", path);
  EXPECT_FALSE(store.find(Kind::Kernel, key));
}

// Breaks if half an entry stays when the disk is full, or nobody is told.
TEST(Store, AFullDiskLeavesNothingBehind) {
  TemporaryFolder folder;
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = {100'000, before.rlim_max};
  ::signal(SIGXFSZ, SIG_IGN);
  std::string said;
  Store store(folder.path(), kLimit, [&](const std::string &warning) { said = warning; });
  ::setrlimit(RLIMIT_FSIZE, &small);
  bool kept = store.insert(Kind::Module, hash128("key"), std::string(1'000'000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(kept);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_NE(said.find("can't be written"), said.npos) << said;
}

// Breaks if a reader can see a half-written entry.
TEST(Store, SharedByWritersAndReaders) {
  TemporaryFolder folder;
  Hash128 key = hash128("key");
  std::string contents(100000, 'c');
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&] {
      Store store(folder.path());
      for (int turn = 0; turn < 50; ++turn) {
        store.insert(Kind::Kernel, key, contents);
        wrong += store.find(Kind::Kernel, key) != contents;
      }
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace tensmith::cache
