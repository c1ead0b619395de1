// The runtime's folder; see BesideRuntime.h.
#include "train/BesideRuntime.h"

#include <dlfcn.h>

namespace tensmith::train {

std::string besideRuntime(const std::string &library) {
  Dl_info runtime{};
  if (!::dladdr(::dlsym(RTLD_DEFAULT, "ts_module_load"), &runtime) || !runtime.dli_fname)
    return library;
  std::string path = runtime.dli_fname;
  return path.substr(0, path.find_last_of('/') + 1) + library;
}

} // namespace tensmith::train
