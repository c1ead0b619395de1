// Looks in the folder of the library that this code is in, and in ../lib of a program's.
#include "reference/Companion.h"

#include <dlfcn.h>
#include <string>

namespace tensmith::reference {

void *companionFunction(const char *library, const char *function) {
  Dl_info own{};
  std::string folder;
  if (dladdr(reinterpret_cast<const void *>(&companionFunction), &own) && own.dli_fname)
    folder = own.dli_fname;
  folder.resize(folder.find_last_of('/') == folder.npos ? 0 : folder.find_last_of('/') + 1);
  for (const std::string &path : {folder + library, folder + "../lib/" + library})
    if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return dlsym(handle, function);
  return nullptr;
}

} // namespace tensmith::reference
