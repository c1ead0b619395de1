// One list for the process; see LoadedPlugins.h.
#include "cache/LoadedPlugins.h"

#include "cache/Store.h"

#include <fcntl.h>
#include <mutex>
#include <set>
#include <unistd.h>

namespace tensmith::cache {
namespace {

struct Plugins {
  std::mutex mutex;
  std::set<std::string> hashes;
};

Plugins &plugins() {
  static Plugins all;
  return all;
}

} // namespace

void notePlugin(const Hash128 &contents) {
  std::lock_guard lock(plugins().mutex);
  plugins().hashes.insert(toHex(contents));
}

void notePlugin(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto hash = file < 0 ? std::nullopt : hashFile(file);
  if (file >= 0)
    ::close(file);
  if (hash)
    notePlugin(*hash);
}

std::string loadedPlugins() {
  std::lock_guard lock(plugins().mutex);
  std::string text;
  for (const std::string &hash : plugins().hashes)
    text += hash + " ";
  return text;
}

} // namespace tensmith::cache
