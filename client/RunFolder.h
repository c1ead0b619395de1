// The folder of a run of training, which one process at a time may work in.
#pragma once

#include "train/Settings.h"

#include <filesystem>

namespace tensmith::client {

class RunFolder {
public:
  /// `own`: this process may write there. Throws Failure.
  RunFolder(const train::Settings &settings, bool own);
  ~RunFolder();
  RunFolder(const RunFolder &) = delete;
  RunFolder &operator=(const RunFolder &) = delete;

  const std::filesystem::path &path() const { return path_; }

private:
  std::filesystem::path path_;
  int lock_ = -1;
};

} // namespace tensmith::client
