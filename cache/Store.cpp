// Entries as files; see Store.h.
#include "cache/Store.h"

#include "base/ByteCount.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fs = std::filesystem;

namespace tensmith::cache {
namespace {

constexpr uint64_t kMagic = 0x3230595254544e53; // "SNTTRY02"
constexpr std::string_view kUnfinished = ".part";
constexpr time_t kUnfinishedSeconds = 3600;
/// Fits the second-level cache: what was read is hashed while it is there.
constexpr size_t kPiece = size_t(256) << 10;

/// Behind an entry's contents.
struct Trailer {
  uint64_t magic;
  uint64_t kind;
  uint64_t key[2];
  uint64_t hash[2]; // of the contents
  uint64_t bytes;   // of the contents
};

Trailer trailerOf(Kind kind, const Hash128 &key, const Hash128 &hash, uint64_t bytes) {
  return {kMagic, uint64_t(kind), {key.high, key.low}, {hash.high, hash.low}, bytes};
}

/// How full a folder is, as this process knows it: other processes insert, too.
struct Filling {
  int64_t found = std::numeric_limits<int64_t>::max(); // bytes, when it was last looked through
  int64_t inserted = 0;                                // bytes, by this process since then
};

/// Of each folder; all stores of this process share them.
struct Fillings {
  std::mutex mutex;
  std::map<std::string, Filling> of;
};
Fillings &fillings() {
  static Fillings all;
  return all;
}

struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
};

bool readAt(int file, uint64_t offset, void *to, size_t bytes) {
  auto *next = static_cast<char *>(to);
  while (bytes) {
    ssize_t count = ::pread(file, next, bytes, off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    next += count, offset += uint64_t(count), bytes -= size_t(count);
  }
  return true;
}

/// Hands out a file's first bytes piece by piece, until `take` says no.
template <typename Take> bool eachPiece(int file, uint64_t bytes, Take take) {
  std::unique_ptr<std::byte[]> piece(new std::byte[std::min<uint64_t>(kPiece, bytes)]);
  for (uint64_t offset = 0; offset < bytes;) {
    size_t count = size_t(std::min<uint64_t>(kPiece, bytes - offset));
    if (!readAt(file, offset, piece.get(), count) || !take(std::span(piece.get(), count)))
      return false;
    offset += count;
  }
  return true;
}

bool isOwn(const struct stat &status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// An entry as it lies there: its trailer, if it is one that nobody else could write.
bool readTrailer(int file, Trailer &trailer) {
  struct stat status;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !isOwn(status) ||
      size_t(status.st_size) < sizeof trailer)
    return false;
  uint64_t bytes = uint64_t(status.st_size) - sizeof trailer;
  return readAt(file, bytes, &trailer, sizeof trailer) && trailer.bytes == bytes;
}

bool isRight(int file, Kind kind, const Hash128 &key, uint64_t &bytes) {
  Trailer trailer;
  if (!readTrailer(file, trailer))
    return false;
  bytes = trailer.bytes;
  auto hash = hashFile(file, bytes);
  if (!hash)
    return false;
  Trailer expected = trailerOf(kind, key, *hash, bytes);
  return std::memcmp(&trailer, &expected, sizeof trailer) == 0;
}

int openEntry(const std::string &path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

std::optional<Hash128> keyOf(const std::string &digits) {
  Hash128 key;
  if (digits.size() != 32 || digits.find_first_not_of("0123456789abcdef") != digits.npos)
    return std::nullopt;
  key.high = std::strtoull(digits.substr(0, 16).c_str(), nullptr, 16);
  key.low = std::strtoull(digits.substr(16).c_str(), nullptr, 16);
  return key;
}

} // namespace

std::string defaultFolder() {
  if (const char *folder = std::getenv("TENSMITH_CACHE"))
    return folder;
  if (const char *folder = std::getenv("XDG_CACHE_HOME"); folder && *folder)
    return std::string(folder) + "/tensmith";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/tensmith";
  return {};
}

std::string machinesFolder() {
  std::string folder = defaultFolder();
  return folder.empty() ? folder : folder + "/machines";
}

int64_t defaultLimit() {
  constexpr int64_t kDefault = int64_t(8) << 30;
  const char *given = std::getenv("TENSMITH_CACHE_LIMIT");
  return given && *given ? parseByteCount(given).value_or(kNoLimit) : kDefault;
}

std::optional<Hash128> hashFile(int descriptor, std::optional<uint64_t> bytes) {
  struct stat status;
  if (!bytes && (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)))
    return std::nullopt;
  Hasher hasher;
  bool read =
      eachPiece(descriptor, bytes ? *bytes : uint64_t(status.st_size), [&](const auto &piece) {
        hasher.addBytes(piece);
        return true;
      });
  return read ? std::optional(hasher.finish()) : std::nullopt;
}

OpenEntry::~OpenEntry() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}
OpenEntry::OpenEntry(OpenEntry &&other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}
OpenEntry &OpenEntry::operator=(OpenEntry &&other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
std::string OpenEntry::path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

Store::Store(std::string folder, int64_t limitBytes, Warning warn)
    : folder_(std::move(folder)), limit_(limitBytes), warn_(std::move(warn)) {}

std::string Store::pathOf(Kind kind, const Hash128 &key) const {
  return folder_ + "/" + toHex(key) + "." + kKindNames[size_t(kind)];
}

void Store::warnOnce(const std::string &what) {
  std::call_once(warned_, [&] {
    if (warn_)
      warn_("the cache in '" + folder_ + "' is not used: " + what);
  });
}

std::string Store::refusal() {
  if (limit_ < 0)
    return "TENSMITH_CACHE_LIMIT is no number of bytes; set it to one, as 500MB or 2GiB";
  struct stat status;
  if (folder_.empty() || ::stat(folder_.c_str(), &status) != 0)
    return {};
  if (!S_ISDIR(status.st_mode))
    return "it is no folder; set TENSMITH_CACHE to one that can be written";
  if (status.st_uid != ::geteuid())
    return "it belongs to another user, who could put code into it; set TENSMITH_CACHE to a folder "
           "of your own";
  if (!isOwn(status))
    return "others may write to it, and could put code into it; take that away (chmod go-w), or "
           "set TENSMITH_CACHE to another folder";
  return {};
}

bool Store::usable() {
  if (folder_.empty())
    return false;
  std::string why = refusal();
  if (!why.empty())
    warnOnce(why);
  return why.empty();
}

/// Looked at again when it is made: someone may have been faster.
bool Store::makeFolder() {
  std::error_code error;
  fs::path path(folder_), around = path.parent_path();
  if (!path.has_filename()) // "cache/"
    around = around.parent_path();
  if (!around.empty())
    fs::create_directories(around, error);
  if (!error && ::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  if (!error)
    return usable();
  warnOnce(error.message() + "; set TENSMITH_CACHE to a folder that can be written");
  return false;
}

std::optional<OpenEntry> Store::open(Kind kind, const Hash128 &key) {
  if (!usable())
    return std::nullopt;
  std::string path = pathOf(kind, key);
  OpenEntry file(openEntry(path), 0);
  if (file.descriptor() < 0)
    return std::nullopt;
  uint64_t bytes = 0;
  if (!isRight(file.descriptor(), kind, key, bytes)) {
    ::unlink(path.c_str());
    return std::nullopt;
  }
  ::futimens(file.descriptor(), nullptr);
  return OpenEntry(file.release(), bytes);
}

std::optional<std::string> Store::find(Kind kind, const Hash128 &key) {
  auto entry = open(kind, key);
  if (!entry)
    return std::nullopt;
  std::string contents(entry->bytes(), '\0');
  if (!readAt(entry->descriptor(), 0, contents.data(), contents.size()))
    return std::nullopt;
  return contents;
}

/// A file that gets its name once it is complete.
class Store::Writer {
public:
  explicit Writer(std::string path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }
  ~Writer() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
    if (!path_.empty())
      ::unlink(path_.c_str());
  }
  bool isOpen() const { return descriptor_ >= 0; }
  int64_t written() const { return int64_t(written_); }

  bool write(std::span<const std::byte> bytes) {
    hasher_.addBytes(bytes);
    written_ += bytes.size();
    return writeAll(bytes);
  }
  bool commit(Kind kind, const Hash128 &key, const std::string &path) {
    Trailer trailer = trailerOf(kind, key, hasher_.finish(), written_);
    if (!writeAll(std::as_bytes(std::span(&trailer, 1))) ||
        ::close(std::exchange(descriptor_, -1)) != 0 || ::rename(path_.c_str(), path.c_str()) != 0)
      return false;
    path_.clear();
    return true;
  }

private:
  bool writeAll(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0)
        return false;
      bytes = bytes.subspan(size_t(count));
    }
    return true;
  }

  std::string path_;
  int descriptor_;
  Hasher hasher_;
  uint64_t written_ = 0;
};

template <typename Write> bool Store::insertBy(Kind kind, const Hash128 &key, Write write) {
  if (folder_.empty() || !usable() || !makeFolder())
    return false;
  static std::atomic<uint64_t> counter = 0;
  Writer writer(folder_ + "/" + toHex(key) + "." + std::to_string(::getpid()) + "." +
                std::to_string(counter.fetch_add(1)) + std::string(kUnfinished));
  if (writer.isOpen() && write(writer) && writer.commit(kind, key, pathOf(kind, key))) {
    std::lock_guard lock(fillings().mutex);
    fillings().of[folder_].inserted += writer.written() + int64_t(sizeof(Trailer));
    return true;
  }
  warnOnce("an entry can't be written: " + std::string(std::strerror(errno)) +
           "; free some space, or set TENSMITH_CACHE to a folder that can be written");
  return false;
}

bool Store::insert(Kind kind, const Hash128 &key, std::string_view contents) {
  return insertBy(kind, key, [&](Writer &writer) {
    return writer.write(std::as_bytes(std::span(contents.data(), contents.size())));
  });
}

bool Store::insertFile(Kind kind, const Hash128 &key, const std::string &path) {
  File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status;
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0 ||
      status.st_size > limit_ / 10 * 9) // it would go at once
    return false;
  return insertBy(kind, key, [&](Writer &writer) {
    return eachPiece(file.descriptor, uint64_t(status.st_size),
                     [&](const auto &piece) { return writer.write(piece); });
  });
}

void Store::remove(Kind kind, const Hash128 &key) {
  if (usable())
    ::unlink(pathOf(kind, key).c_str());
}

std::vector<EntryFile> Store::entries() {
  std::vector<EntryFile> found;
  std::error_code error;
  fs::directory_iterator files(usable() ? fs::path(folder_) : fs::path(), error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    struct stat status; // another process may remove the file meanwhile
    std::string path = files->path().string();
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
      continue;
    std::string ending = files->path().extension().string(), stem = files->path().stem().string();
    if (ending == kUnfinished && ::time(nullptr) - status.st_mtime > kUnfinishedSeconds)
      ::unlink(path.c_str());
    for (size_t kind = 0; kind < std::size(kKindNames) && keyOf(stem); ++kind)
      if (ending == std::string(".") + kKindNames[kind])
        found.push_back({path, Kind(kind), stem, status.st_size, status.st_mtime});
  }
  std::sort(found.begin(), found.end(),
            [](const EntryFile &a, const EntryFile &b) { return a.used < b.used; });
  return found;
}

bool Store::verify(const EntryFile &entry) {
  File file{openEntry(entry.path)};
  uint64_t bytes;
  auto key = keyOf(entry.key);
  return file.descriptor >= 0 && key && isRight(file.descriptor, entry.kind, *key, bytes);
}

std::optional<std::string> Store::contents(const EntryFile &entry) {
  File file{openEntry(entry.path)};
  uint64_t bytes = 0;
  auto key = keyOf(entry.key);
  if (file.descriptor < 0 || !key || !isRight(file.descriptor, entry.kind, *key, bytes))
    return std::nullopt;
  std::string contents(bytes, '\0');
  return readAt(file.descriptor, 0, contents.data(), bytes) ? std::optional(contents)
                                                            : std::nullopt;
}

std::vector<EntryFile> Store::prune(int64_t mostBytes) {
  std::vector<EntryFile> all = entries(), removed;
  int64_t total = 0;
  for (const EntryFile &entry : all)
    total += entry.bytes;
  for (const EntryFile &entry : all) {
    if (total <= mostBytes)
      break;
    if (::unlink(entry.path.c_str()) != 0 && errno != ENOENT)
      continue;
    total -= entry.bytes;
    removed.push_back(entry);
  }
  return removed;
}

/// A folder of many entries takes longer to look through than a small graph to compile, and a
/// program asks after each. An eighth: so many processes may insert at once
/// before the folder passes its limit unseen.
void Store::trim() {
  Filling filling;
  {
    std::lock_guard lock(fillings().mutex);
    filling = fillings().of[folder_];
  }
  if (filling.inserted == 0 || filling.inserted <= (limit_ - filling.found) / 8)
    return;
  int64_t total = 0;
  for (const EntryFile &entry : entries())
    total += entry.bytes;
  if (total > limit_)
    for (const EntryFile &entry : prune(limit_ / 10 * 9))
      total -= entry.bytes;
  std::lock_guard lock(fillings().mutex);
  fillings().of[folder_] = {total, 0};
}

} // namespace tensmith::cache
