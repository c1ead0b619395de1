// Reading and writing whole files through POSIX, whose errno says why something failed.
#include "tools/tensmith/Files.h"

#include "tools/tensmith/Failure.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tensmith::cli {
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
  Bytes bytes(static_cast<size_t>(status.st_size));
  bytes.resize(readUpTo(file.number, bytes, path));
  return bytes;
}

void writeFile(const std::filesystem::path &path, std::span<const std::byte> bytes) {
  std::string partial = path.string() + ".partial-XXXXXX";
  Descriptor file = {::mkostemp(partial.data(), O_CLOEXEC)};
  if (file.number < 0)
    fail(path.string(), "can't be written: " + reason(errno));
  int error = writeAll(file.number, bytes);
  mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file.number, 0666 & ~mask);
  if (::close(std::exchange(file.number, -1)) != 0 && !error)
    error = errno;
  if (!error && ::rename(partial.c_str(), path.c_str()) != 0)
    error = errno;
  if (!error)
    return;
  ::unlink(partial.c_str());
  fail(path.string(), "can't be written: " + reason(error));
}

FileKind kindOf(const std::string &path) {
  struct stat status = {};
  Descriptor file = {openForReading(path, status)};
  std::byte start[4] = {};
  size_t size = readUpTo(file.number, start, path);
  if (size == 0)
    fail(path, "the file is empty; expected a model (.onnx) or a compiled module");
  bool elf = size == 4 && std::memcmp(start, "\177ELF", 4) == 0;
  return elf || path.ends_with(".so") ? FileKind::Module : FileKind::Model;
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

} // namespace tensmith::cli
