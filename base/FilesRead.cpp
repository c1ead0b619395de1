// The thread's collector; see FilesRead.h.
#include "base/FilesRead.h"

#include <utility>

namespace tensmith {

static thread_local FilesRead *collecting = nullptr;

FilesRead::FilesRead() : outer_(std::exchange(collecting, this)) {}
FilesRead::~FilesRead() { collecting = outer_; }

void FilesRead::note(const std::string &path) {
  if (collecting)
    collecting->paths_.insert(path);
}

} // namespace tensmith
