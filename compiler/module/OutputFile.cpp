// Written beside the target and renamed; see OutputFile.h.
#include "compiler/module/OutputFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace fs = std::filesystem;

namespace tensmith::modules {

OutputFile::~OutputFile() {
  if (descriptor_ >= 0)
    close(descriptor_);
  if (!part_.empty())
    unlink(part_.c_str());
}

Status OutputFile::failure(const char *what, int error) const {
  std::string reason =
      error == ENOSPC || error == EDQUOT ? "no space left on device" : std::strerror(error);
  return {StatusCode::IoError, std::string("cannot ") + what + " '" + path_ + "': " + reason};
}

Status OutputFile::open(const std::string &path, int64_t bytes) {
  std::error_code error;
  path_ = path;
  fs::path target = fs::canonical(path, error); // of a link: what it leads to
  if (error)
    target = path;
  auto kind = fs::status(target, error).type();
  if (kind != fs::file_type::not_found && kind != fs::file_type::regular)
    return {StatusCode::IoError, "cannot write '" + path + "': it is not a regular file"};
  path_ = target.string();
  std::string part = path_ + ".part" + std::to_string(getpid());
  descriptor_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    return failure("write", errno);
  part_ = part;
  int reserved = bytes > 0 ? posix_fallocate(descriptor_, 0, bytes) : 0;
  if (reserved == ENOSPC || reserved == EDQUOT || reserved == EFBIG)
    return failure("write", reserved);
  return {};
}

Status OutputFile::write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return failure("write", count < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(size_t(count));
    offset += count;
  }
  return {};
}

Status OutputFile::commit() {
  int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0)
    return failure("write", errno);
  if (std::rename(part_.c_str(), path_.c_str()) != 0)
    return failure("write", errno);
  part_.clear();
  return {};
}

} // namespace tensmith::modules
