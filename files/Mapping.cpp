// Mapping files; see Mapping.h.
#include "files/Mapping.h"

#include "files/Failure.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tensmith {

MappedFile mapFile(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat properties{};
  if (file < 0 || fstat(file, &properties) != 0 || !S_ISREG(properties.st_mode)) {
    int error = errno;
    if (file >= 0)
      close(file);
    fail(path, file < 0 ? std::strerror(error) : "is no regular file");
  }
  auto mapped = mapDescriptor(file, size_t(properties.st_size), "file");
  close(file);
  if (!mapped.ok())
    fail(path, mapped.status().message());
  return *mapped;
}

} // namespace tensmith
