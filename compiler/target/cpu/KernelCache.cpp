// Entries as files; see KernelCache.h.
#include "compiler/target/cpu/KernelCache.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

namespace tensmith::target::cpu {
namespace {

constexpr uint64_t kMagic = 0x31304c4e524b5354; // "TSKRNL01"
constexpr std::string_view kSuffix = ".kernel", kUnfinished = ".part";
constexpr auto kUnfinishedAge = std::chrono::hours(1);

struct EntryHeader {
  uint64_t magic;
  uint64_t key[2];
  uint64_t hash[2]; // of the contents
  uint64_t bytes;   // of the contents
};

EntryHeader headerOf(const Hash128 &key, std::string_view contents) {
  Hash128 hash = hash128(contents);
  return {kMagic, {key.high, key.low}, {hash.high, hash.low}, contents.size()};
}

struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0)
      close(descriptor);
  }
};

bool readAll(int file, char *to, size_t bytes) {
  while (bytes) {
    ssize_t count = read(file, to, bytes);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    to += count;
    bytes -= size_t(count);
  }
  return true;
}

bool writeAll(int file, const char *from, size_t bytes) {
  while (bytes) {
    ssize_t count = write(file, from, bytes);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    from += count;
    bytes -= size_t(count);
  }
  return true;
}

struct Entry {
  fs::path path;
  fs::file_time_type used;
  int64_t bytes;
};

/// The entries of a folder; removes what was left unfinished long ago.
std::vector<Entry> listEntries(const std::string &folder) {
  std::vector<Entry> entries;
  std::error_code error;
  auto now = fs::file_time_type::clock::now();
  fs::directory_iterator files(folder, error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    std::error_code gone; // another process may remove the file meanwhile
    auto used = files->last_write_time(gone);
    auto extension = files->path().extension();
    if (gone)
      continue;
    if (extension == kSuffix) {
      auto bytes = files->file_size(gone);
      if (!gone)
        entries.push_back({files->path(), used, int64_t(bytes)});
    } else if (extension == kUnfinished && now - used > kUnfinishedAge) {
      fs::remove(files->path(), gone);
    }
  }
  return entries;
}

} // namespace

std::string defaultCacheFolder() {
  if (const char *folder = std::getenv("TENSMITH_CACHE"))
    return folder;
  if (const char *folder = std::getenv("XDG_CACHE_HOME"); folder && *folder)
    return std::string(folder) + "/tensmith";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/tensmith";
  return {};
}

KernelCache::KernelCache(std::string folder, int64_t limitBytes, Warning warn)
    : folder_(std::move(folder)), limit_(limitBytes), warn_(std::move(warn)) {}

std::string KernelCache::pathOf(const Hash128 &key) const {
  return folder_ + "/" + toHex(key) + std::string(kSuffix);
}

void KernelCache::warnOnce(const std::string &what) {
  std::call_once(warned_, [&] {
    if (warn_)
      warn_("the kernel cache in '" + folder_ + "' is not used: " + what +
            "; set TENSMITH_CACHE to a folder that can be written");
  });
}

std::optional<std::string> KernelCache::find(const Hash128 &key) {
  if (folder_.empty())
    return std::nullopt;
  File file{open(pathOf(key).c_str(), O_RDONLY | O_CLOEXEC)};
  EntryHeader header;
  struct stat status;
  if (file.descriptor < 0 || fstat(file.descriptor, &status) != 0 ||
      size_t(status.st_size) < sizeof header ||
      !readAll(file.descriptor, reinterpret_cast<char *>(&header), sizeof header))
    return std::nullopt;
  std::string contents;
  if (header.magic != kMagic || header.bytes != size_t(status.st_size) - sizeof header)
    return std::nullopt;
  contents.resize(header.bytes);
  if (!readAll(file.descriptor, contents.data(), contents.size()))
    return std::nullopt;
  EntryHeader expected = headerOf(key, contents);
  if (std::memcmp(&header, &expected, sizeof header) != 0)
    return std::nullopt;
  futimens(file.descriptor, nullptr);
  return contents;
}

void KernelCache::insert(const Hash128 &key, const std::string &contents) {
  if (folder_.empty())
    return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    return warnOnce(error.message());
  static std::atomic<uint64_t> counter = 0;
  std::string part = folder_ + "/" + toHex(key) + "." + std::to_string(getpid()) + "." +
                     std::to_string(counter.fetch_add(1)) + std::string(kUnfinished);
  bool written = false;
  {
    File file{open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (file.descriptor < 0)
      return warnOnce(std::strerror(errno));
    EntryHeader header = headerOf(key, contents);
    written = writeAll(file.descriptor, reinterpret_cast<const char *>(&header), sizeof header) &&
              writeAll(file.descriptor, contents.data(), contents.size());
  }
  if (!written || rename(part.c_str(), pathOf(key).c_str()) != 0) {
    warnOnce(std::strerror(errno));
    unlink(part.c_str());
    return;
  }
  inserted_ = true;
}

void KernelCache::trim() {
  if (folder_.empty() || !inserted_.exchange(false))
    return;
  std::vector<Entry> entries = listEntries(folder_);
  int64_t total = 0;
  for (const Entry &entry : entries)
    total += entry.bytes;
  if (total <= limit_)
    return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry &a, const Entry &b) { return a.used < b.used; });
  for (const Entry &entry : entries) {
    if (total <= limit_ / 10 * 9)
      break;
    std::error_code gone;
    fs::remove(entry.path, gone);
    total -= entry.bytes;
  }
}

} // namespace tensmith::target::cpu
