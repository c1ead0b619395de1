// Which files a model is made of, beside its own: external data, imports, tensors that it loads.
//
// Whoever reads one notes it; whoever wants to know, as a cache that has to see when one of them
// changes, collects what is noted on its thread. Nothing is noted where nobody collects.
#pragma once

#include <set>
#include <string>

namespace tensmith {

/// Collects for as long as it lives; the innermost one of a thread does.
class FilesRead {
public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead &) = delete;
  FilesRead &operator=(const FilesRead &) = delete;

  /// A path that can be opened as it stands, from where the process is.
  static void note(const std::string &path);
  const std::set<std::string> &paths() const { return paths_; }

private:
  std::set<std::string> paths_;
  FilesRead *outer_;
};

} // namespace tensmith
