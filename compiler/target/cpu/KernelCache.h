// Compiled kernels on disk, found again by what they were compiled from.
//
// One file an entry, named by its key, written beside and renamed: processes share the folder
// without locks, and a reader sees a whole entry or none. The entry carries its key and the hash of
// its contents; one that doesn't match is as good as absent. The cache only saves time: where the
// folder can't be used, compilation goes on without, and says so once.
#pragma once

#include "base/Hash.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace tensmith::target::cpu {

/// `$TENSMITH_CACHE`, `$XDG_CACHE_HOME/tensmith` or `~/.cache/tensmith`; empty, for no cache, where
/// none of the variables is set or TENSMITH_CACHE is set to nothing.
std::string defaultCacheFolder();

class KernelCache {
public:
  using Warning = std::function<void(const std::string &)>;
  static constexpr int64_t kDefaultLimit = int64_t(2) << 30;

  /// With an empty folder nothing is found and nothing kept. `warn` is called at most once, from
  /// whichever thread meets the trouble.
  explicit KernelCache(std::string folder, int64_t limitBytes = kDefaultLimit,
                       Warning warn = nullptr);

  /// The contents kept under the key. Marks the entry as used now.
  std::optional<std::string> find(const Hash128 &key);
  void insert(const Hash128 &key, const std::string &contents);

  /// Removes the entries whose last use is longest ago until at most nine tenths of the limit are
  /// left, if the limit is passed, and what crashed processes left unfinished. Without an insertion
  /// since the last time it does nothing.
  void trim();

private:
  std::string pathOf(const Hash128 &key) const;
  void warnOnce(const std::string &what);

  std::string folder_;
  int64_t limit_;
  Warning warn_;
  std::once_flag warned_;
  std::atomic<bool> inserted_ = false;
};

} // namespace tensmith::target::cpu
