// Maps files, and walks to external data one folder at a time without following a link; see
// ExternalData.h.
#include "frontends/onnx/ExternalData.h"

#include "base/FilesRead.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tensmith::onnx_import {
namespace {

class Descriptor {
public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor &&other) : number_(std::exchange(other.number_, -1)) {}
  Descriptor &operator=(Descriptor &&other) {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0)
      close(number_);
  }
  int get() const { return number_; }

private:
  int number_;
};

Status ioError(const std::string &what) {
  return {StatusCode::IoError, what + ": " + std::strerror(errno)};
}

Status refuse(const std::string &location, const std::string &reason) {
  return {StatusCode::InvalidModel, "external data at '" + location + "' " + reason +
                                        "; it must be a file of its own in the model's folder"};
}

/// Opens `location` below `folder` part by part, so that no link is followed, not even one that
/// appears in between.
Result<Descriptor> openBelow(const std::string &folder, const std::string &location) {
  Descriptor at(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0)
    return ioError("folder '" + folder + "'");
  size_t start = 0;
  while (true) {
    size_t slash = location.find('/', start);
    std::string part = location.substr(start, slash - start);
    bool last = slash == std::string::npos;
    if (part == "..")
      return refuse(location, "leads out of the model's folder");
    if (last && (part.empty() || part == "."))
      return refuse(location, "names no file");
    if (!part.empty() && part != ".") {
      int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
      Descriptor next(openat(at.get(), part.c_str(), flags));
      if (next.get() < 0 && (errno == ELOOP || errno == ENOTDIR))
        return refuse(location, "is reached through a symbolic link");
      if (next.get() < 0)
        return ioError("external data at '" + location + "'");
      at = std::move(next);
    }
    if (last)
      return at;
    start = slash + 1;
  }
}

} // namespace

Result<MappedFile> mapFile(const std::string &path, int64_t maxBytes) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0)
    return ioError("can't be opened");
  struct stat properties;
  if (fstat(file.get(), &properties) != 0)
    return ioError("can't be examined");
  if (!S_ISREG(properties.st_mode))
    return Status(StatusCode::IoError, "is not a regular file");
  if (properties.st_size > maxBytes)
    return Status(StatusCode::ResourceExhausted, "has " + std::to_string(properties.st_size) +
                                                     " bytes, more than the limit of " +
                                                     std::to_string(maxBytes));
  return mapDescriptor(file.get(), size_t(properties.st_size), "file");
}

Result<MappedFile> ExternalFiles::map(const std::string &folder, const std::string &location,
                                      int64_t offset, int64_t length) {
  if (location.empty() || location.find('\0') != std::string::npos)
    return refuse(location, "names no file");
  if (location[0] == '/')
    return refuse(location, "is an absolute path");
  auto file = openBelow(folder, location);
  if (!file.ok())
    return file.status();
  struct stat properties;
  if (fstat(file->get(), &properties) != 0)
    return ioError("external data at '" + location + "'");
  if (!S_ISREG(properties.st_mode))
    return refuse(location, "is not a regular file");
  if (properties.st_nlink > 1)
    return refuse(location, "is a hard link (the file has another name, too)");
  auto [place, isNew] = mapped_.try_emplace({properties.st_dev, properties.st_ino});
  if (isNew) {
    FilesRead::note((folder.empty() ? "" : folder + "/") + location);
    auto mapped = mapDescriptor(file->get(), size_t(properties.st_size),
                                "external data at '" + location + "'");
    if (!mapped.ok()) {
      mapped_.erase(place);
      return mapped;
    }
    place->second = *mapped;
  }
  MappedFile part = place->second;
  int64_t size = int64_t(part.bytes.size());
  if (length < 0)
    length = size - std::min(offset, size);
  if (offset < 0 || offset > size || length > size - offset)
    return Status(StatusCode::InvalidModel, "external data at '" + location + "' ends at byte " +
                                                std::to_string(size) + ", before offset " +
                                                std::to_string(offset) + " and length " +
                                                std::to_string(length));
  part.bytes = part.bytes.subspan(size_t(offset), size_t(length));
  return part;
}

} // namespace tensmith::onnx_import
