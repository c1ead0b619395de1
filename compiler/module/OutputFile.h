// A file that appears under its name when it is complete, and leaves nothing behind otherwise.
#pragma once

#include "base/Status.h"

#include <span>
#include <string>

namespace tensmith::modules {

class OutputFile {
public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Begins a file of `bytes` bytes beside `path`, and asks the file system for the space at once,
  /// so that a full disk is known before anything is written. `path` may be a file, a link to one,
  /// or nothing yet; devices and folders are refused.
  Status open(const std::string &path, int64_t bytes);
  Status write(int64_t offset, std::span<const std::byte> bytes);
  /// Gives the file its name.
  Status commit();

private:
  Status failure(const char *what, int error) const;

  int descriptor_ = -1;
  std::string path_, part_;
};

} // namespace tensmith::modules
