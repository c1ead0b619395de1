// The folder is locked for as long as the object is there, by a file that stays.
#include "client/RunFolder.h"

#include "files/Failure.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace tensmith::client {

namespace fs = std::filesystem;

RunFolder::RunFolder(const train::Settings &settings, bool own) : path_(settings.output) {
  if (path_.empty())
    path_ = fs::path(settings.model).stem().string() + "-run";
  if (!own)
    return;
  std::error_code error;
  fs::create_directories(path_, error);
  if (error)
    fail(path_, "can't be made: " + error.message());
  lock_ = ::open((path_ / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (lock_ < 0)
    fail(path_, std::string("can't be written to: ") + std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    fail(path_, "another process is training there; give another --output");
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0)
    ::close(lock_);
}

} // namespace tensmith::client
