// Reading and writing whole files through POSIX, whose errno says why something failed.
#include "files/Files.h"

#include "files/Failure.h"
#include "files/ModelFile.h"
#include "files/Paths.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tensmith {
namespace {

/// A file descriptor that closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

std::string reason(int error) {
  std::string text = std::strerror(error);
  switch (error) {
  case ENOENT:
    return text + "; check the path";
  case EACCES:
  case EPERM:
    return text + "; check its permissions";
  case ENOSPC:
  case EDQUOT:
    return text + "; free some space, or write elsewhere";
  default:
    return text;
  }
}

int openForReading(const std::string &path, struct stat &status) {
  int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0 && errno == ENOENT)
    fail(path, std::strerror(ENOENT) + similarFile(path));
  if (number < 0)
    fail(path, reason(errno));
  if (::fstat(number, &status) == 0 && S_ISREG(status.st_mode))
    return number;
  ::close(number);
  fail(path, S_ISDIR(status.st_mode) ? "is a folder; name a file in it" : "is not a regular file");
}

size_t readUpTo(int number, std::span<std::byte> into, const std::string &path) {
  size_t done = 0;
  while (done < into.size()) {
    ssize_t count = ::read(number, into.data() + done, into.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      fail(path, reason(errno));
    if (count == 0)
      break;
    done += size_t(count);
  }
  return done;
}

/// 0, or why not.
int writeAll(int number, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(number, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return errno;
    bytes = bytes.subspan(size_t(count));
  }
  return 0;
}

} // namespace

Bytes readFile(const std::string &path) {
  struct stat status = {};
  Descriptor file = {openForReading(path, status)};
  if (uint64_t(status.st_size) > uint64_t(PTRDIFF_MAX)) // of a machine of 32 bits
    fail(path, "is larger than what this machine's programs can hold");
  Bytes bytes(static_cast<size_t>(status.st_size));
  bytes.resize(readUpTo(file.number, bytes, path));
  return bytes;
}

/// What a path names in the end, which need not be there yet.
static std::filesystem::path followLinks(std::filesystem::path path) {
  constexpr int kMostLinks = 40; // of one that names itself
  std::error_code none;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, none); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, none);
  if (std::filesystem::is_symlink(path, none))
    fail(path.string(), "can't be written: " + reason(ELOOP));
  return path;
}

AtomicFile::AtomicFile(const std::filesystem::path &path) : path_(followLinks(path).string()) {
  struct stat status = {};
  bool isThere = ::stat(path_.c_str(), &status) == 0;
  if (isThere && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    number_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC); // a device or a pipe is not replaced
  } else {
    partial_ = path_ + ".partial-XXXXXX";
    number_ = ::mkostemp(partial_.data(), O_CLOEXEC);
  }
  int error = errno;
  if (number_ >= 0)
    return;
  if (Status status = checkWritable(path.string()); !status.ok())
    throw Failure(status.message());
  fail(path.string(), "can't be written: " + reason(error));
}

AtomicFile::~AtomicFile() {
  if (number_ < 0)
    return;
  ::close(number_);
  removePartial();
}

void AtomicFile::removePartial() {
  if (!partial_.empty())
    ::unlink(partial_.c_str());
}

void AtomicFile::giveUp(int error) {
  removePartial();
  if (number_ >= 0)
    ::close(std::exchange(number_, -1));
  fail(path_, "can't be written: " + reason(error));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (int error = writeAll(number_, bytes))
    giveUp(error);
}

void AtomicFile::commit(bool durable) {
  if (partial_.empty()) {
    if (::close(std::exchange(number_, -1)) != 0)
      giveUp(errno);
    return;
  }
  mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(number_, 0666 & ~mask);
  if (durable && ::fsync(number_) != 0)
    giveUp(errno);
  if (::close(std::exchange(number_, -1)) != 0 || ::rename(partial_.c_str(), path_.c_str()) != 0)
    giveUp(errno);
  if (!durable)
    return;
  std::string folder = std::filesystem::path(path_).parent_path();
  Descriptor opened = {::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC)};
  if (opened.number >= 0 && ::fsync(opened.number) != 0 && errno != EINVAL)
    fail(path_, "may not be on the disk: " + reason(errno)); // EINVAL: of no use on this one
}

void writeFile(const std::filesystem::path &path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void writeFile(const std::filesystem::path &path, std::string_view text) {
  writeFile(path, std::as_bytes(std::span(text)));
}

FileKind kindOf(const std::string &path) {
  std::byte start[4] = {};
  size_t size = 0;
  std::error_code none;
  if (std::filesystem::is_regular_file(path, none)) {
    struct stat status = {};
    Descriptor file = {openForReading(path, status)};
    size = readUpTo(file.number, start, path);
  }
  if (size == 4 && std::memcmp(start, "\177ELF", 4) == 0)
    return FileKind::Module;
  if (size > 0 && path.ends_with(".so"))
    return FileKind::Module;
  if (Status status = checkModelFile(path); !status.ok())
    throw Failure(status.message());
  return FileKind::Model;
}

TemporaryFolder::TemporaryFolder() {
  const char *base = std::getenv("TMPDIR");
  std::string pattern = std::string(base && *base ? base : "/tmp") + "/tensmith-XXXXXX";
  if (!::mkdtemp(pattern.data()))
    fail(pattern, "can't be made: " + reason(errno) + " (TMPDIR names the folder for such files)");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

} // namespace tensmith
