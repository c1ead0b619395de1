// Whole compiled models in the store of what was compiled (cache/Store.h), for programs that make a
// session of the same model again and again, so that the compiler isn't even loaded for it.
//
// What a model is made of is known when it was compiled once. So there are two steps, like those of
// ccache's direct mode: the model's own bytes, the options, the machine and the compiler are the
// key of an entry that names the files beside the model; with the contents of those they are the
// key of the module. A module whose files changed while it was compiled is not kept.
#pragma once

#include "cache/Store.h"

#include <tensmith/compiler.h>

#include <nlohmann/json.hpp>

#include <ctime>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tensmith::client {

class ModuleCache {
public:
  struct Found {
    cache::OpenEntry module;
    std::string interface;             // as ts_describe_interface gave it; empty: nobody has asked
    std::vector<std::string> warnings; // of the compilation
  };

  /// Of a model's file, or of its bytes where they are given. What hides in `options` must stay for
  /// as long as this. Nothing is found or kept where they can't be a key: with stages that are
  /// dumped or verified, inputs to calibrate with, derivatives, training, or no cache.
  ModuleCache(const std::string &path, std::optional<std::span<const std::byte>> bytes,
              const ts_compile_options &options);
  ModuleCache(const ModuleCache &) = delete;
  ModuleCache &operator=(const ModuleCache &) = delete;

  std::optional<Found> find();
  /// To be called before a compilation with these options, which then tell this of the files that
  /// are read and of warnings.
  void begin(ts_compile_options &options);
  /// What that compilation has made, from its file or its bytes. Whether it was kept.
  bool keepFile(const std::string &module, const std::string &interface);
  bool keepBytes(std::string_view module, const std::string &interface);
  /// An interface that was asked for after the module was kept.
  void keepInterface(const std::string &interface);

private:
  std::optional<Hash128> moduleKey() const;
  template <typename Insert> bool keep(const std::string &interface, Insert insert);
  bool keepModel(const std::string &interface);
  bool isUnchanged(const std::string &path) const;
  bool readModel();

  cache::Store store_;
  std::string path_, folder_;
  std::optional<Hash128> key_; // none: there is no cache
  bool isFile_;
  std::set<std::string> files_; // relative to the model's folder, or absolute
  std::string interface_;
  std::vector<std::string> warnings_;
  void (*warn_)(void *context, const char *message) = nullptr; // of the caller's options
  void *warnContext_ = nullptr;
  timespec began_{};
};

} // namespace tensmith::client
