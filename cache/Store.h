// What was compiled, on disk, found again by what it was compiled from: the one store of kernels,
// their times, whole modules and what is known of models.
//
// An entry is one file, named by its key and its kind, written beside and renamed: processes share
// the folder without locks, and a reader sees a whole entry or none. Behind its contents an entry
// has a trailer with its key and the hash of the contents; one that doesn't match is removed and as
// good as absent. The contents come first, so that a module can be mapped where it lies.
//
// An entry is code that will run, and the hash tells damage, not forgery. So the folder has to be
// the user's own, and nobody else may write to it or to an entry; it is made with mode 0700. The
// store only saves time: where the folder can't be used, its users go on without, and say so once.
#pragma once

#include "base/Hash.h"

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensmith::cache {

/// `$TENSMITH_CACHE`, `$XDG_CACHE_HOME/tensmith` or `~/.cache/tensmith`; empty, for no cache, where
/// none of the variables is set or TENSMITH_CACHE is set to nothing.
std::string defaultFolder();
/// Of what was measured of machines, a file each; within the default folder, whose entries are too
/// many to look through for them. Empty where that is.
std::string machinesFolder();

/// Of a setting that is no number of bytes: then nothing is kept.
inline constexpr int64_t kNoLimit = -1;
/// `$TENSMITH_CACHE_LIMIT`, bytes as 500MB or 2GiB, or 8 GiB.
int64_t defaultLimit();

enum class Kind : uint8_t {
  Kernel, // an object of one kernel
  Module, // a compiled model
  Model,  // what is known of a model before its module is looked for
  Time    // the seconds that a kernel takes
};
constexpr const char *kKindNames[] = {"kernel", "module", "model", "time"}; // and files' endings

/// The file of an entry that was found right, open; closed with the object.
class OpenEntry {
public:
  OpenEntry(int descriptor, uint64_t bytes) : descriptor_(descriptor), bytes_(bytes) {}
  ~OpenEntry();
  OpenEntry(OpenEntry &&other) noexcept;
  OpenEntry &operator=(OpenEntry &&other) noexcept;

  /// Names this file, whatever happens to the entry, as long as the object lives.
  std::string path() const;
  int descriptor() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); } // left to the caller to close
  uint64_t bytes() const { return bytes_; } // of the contents, with which the file begins

private:
  int descriptor_;
  uint64_t bytes_;
};

/// Of a folder's entries, whether they are right or not.
struct EntryFile {
  std::string path;
  Kind kind;
  std::string key; // in hexadecimal digits
  int64_t bytes;   // of the file
  int64_t used;    // seconds since 1970
};

class Store {
public:
  using Warning = std::function<void(const std::string &)>;

  /// With an empty folder nothing is found and nothing kept. `warn` is called at most once, from
  /// whichever thread meets the trouble.
  explicit Store(std::string folder, int64_t limitBytes = defaultLimit(), Warning warn = nullptr);

  /// The contents kept under the key. Marks the entry as used now.
  std::optional<std::string> find(Kind kind, const Hash128 &key);
  /// The same for contents that are not read into memory.
  std::optional<OpenEntry> open(Kind kind, const Hash128 &key);
  /// Whether it is kept now.
  bool insert(Kind kind, const Hash128 &key, std::string_view contents);
  bool insertFile(Kind kind, const Hash128 &key, const std::string &path);
  void remove(Kind kind, const Hash128 &key);

  /// Removes the entries whose last use is longest ago until at most nine tenths of the limit are
  /// left, if the limit is passed, and what crashed processes left unfinished. It looks at a
  /// process's first insertion into the folder, and again once that process has inserted an eighth
  /// of the room that was left.
  void trim();

  /// The least recently used first.
  std::vector<EntryFile> entries();
  /// Whether contents and trailer belong together; an entry that isn't right is left.
  bool verify(const EntryFile &entry);
  /// Those of an entry that is right; without marking it as used.
  std::optional<std::string> contents(const EntryFile &entry);
  /// Removes the least recently used ones until at most that many bytes are left; gives what went.
  std::vector<EntryFile> prune(int64_t mostBytes);
  /// Why the folder can't be used; empty where it can, or isn't there yet.
  std::string refusal();

  const std::string &folder() const { return folder_; }

private:
  class Writer;

  bool usable();
  std::string pathOf(Kind kind, const Hash128 &key) const;
  template <typename Write> bool insertBy(Kind kind, const Hash128 &key, Write write);
  bool makeFolder();
  void warnOnce(const std::string &what);

  std::string folder_;
  int64_t limit_;
  Warning warn_;
  std::once_flag warned_;
};

/// The hash of a file's first `bytes` bytes, or of all; nothing where it can't be read.
std::optional<Hash128> hashFile(int descriptor, std::optional<uint64_t> bytes = std::nullopt);

} // namespace tensmith::cache
