// Names beside a path, compared with the one that was given; see Paths.h.
#include "files/Paths.h"

#include "files/Words.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace tensmith {

namespace fs = std::filesystem;

std::vector<std::string> namesIn(const std::string &folder) {
  constexpr size_t kMostNames = 4096;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
    if (names.size() == kMostNames)
      break;
  }
  std::ranges::sort(names);
  return names;
}

std::string similarFile(const std::string &path) {
  fs::path file(path), folder = file.parent_path();
  std::error_code none;
  if (!folder.empty() && !fs::is_directory(folder, none))
    return "; there is no folder '" + printable(folder.string()) + "'";
  auto close = nearest(file.filename().string(), namesIn(folder.empty() ? "." : folder.string()));
  return close ? "; did you mean '" + printable((folder / *close).string()) + "'?"
               : "; check the path";
}

static Status ioError(const std::string &path, const std::string &what) {
  return {StatusCode::IoError, printable(path) + ": " + what};
}

Status checkWritable(const std::string &path) {
  fs::path folder = fs::path(path).parent_path();
  std::string name = folder.empty() ? "." : folder.string();
  std::error_code none;
  if (!fs::exists(name, none))
    return ioError(path, std::string("can't be written: ") + std::strerror(ENOENT) +
                             "; there is no folder '" + printable(name) +
                             "': make it first, or write elsewhere");
  if (!fs::is_directory(name, none))
    return ioError(path, "can't be written: '" + printable(name) + "' is no folder");
  if (fs::is_directory(path, none))
    return ioError(path, "can't be written: it is a folder; name a file in it");
  bool device = fs::exists(path, none) && !fs::is_regular_file(path, none);
  if (::access(device ? path.c_str() : name.c_str(), W_OK) != 0)
    return ioError(path, std::string("can't be written: ") + std::strerror(errno) +
                             "; check the folder's permissions, or write elsewhere");
  return {};
}

} // namespace tensmith
