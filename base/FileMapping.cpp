// The process's mappings, so that their pages can be dropped; see FileMapping.h.
#include "base/FileMapping.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace tensmith {
namespace {

struct Mappings {
  std::mutex mutex;
  std::map<void *, size_t> sizes; // in bytes, by where it begins
};

/// Never destroyed: a mapping may be let go of while the process ends.
Mappings &mappings() {
  static auto *all = new Mappings;
  return *all;
}

void unmap(void *address) {
  Mappings &all = mappings();
  std::lock_guard lock(all.mutex);
  auto found = all.sizes.find(address);
  munmap(address, found->second);
  all.sizes.erase(found);
}

} // namespace

Result<MappedFile> mapDescriptor(int descriptor, size_t size, const std::string &what) {
  if (size == 0)
    return MappedFile{nullptr, {}};
  Mappings &all = mappings();
  std::lock_guard lock(all.mutex);
  void *address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED)
    return Status(StatusCode::IoError, what + ": can't be mapped: " + std::strerror(errno));
  all.sizes.emplace(address, size);
  return MappedFile{std::shared_ptr<const void>(address, unmap),
                    {static_cast<const std::byte *>(address), size}};
}

void dropMappedPages() {
  Mappings &all = mappings();
  std::lock_guard lock(all.mutex);
  for (auto [address, size] : all.sizes)
    madvise(address, size, MADV_DONTNEED);
}

} // namespace tensmith
