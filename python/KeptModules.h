// The cache of whole modules (client/ModuleCache.h) as Python has it.
#pragma once

#include "client/ModuleCache.h"
#include "python/Settings.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

class KeptModules {
public:
  /// Of a model's file or, where they are given, its bytes.
  KeptModules(const std::string &path, std::optional<nanobind::bytes> bytes,
              const Settings &settings);

  /// (descriptor, bytes of the module, interface) of the module's file, or None. The caller closes
  /// it.
  nanobind::object find();
  void begin(ts_compile_options &options) { cache_->begin(options); }
  bool keep(nanobind::object module, const std::string &interface);
  void keepInterface(const std::string &interface) { cache_->keepInterface(interface); }
  const std::vector<std::string> &warnings() const { return warnings_; }

private:
  Settings settings_; // which the options point into
  Pointers pointers_;
  std::vector<std::string> warnings_;
  std::unique_ptr<tensmith::client::ModuleCache> cache_;
};

void bindKeptModules(nanobind::module_ &m);
