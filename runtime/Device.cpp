// Opens devices; see Device.h.
#include "runtime/Device.h"

#include "reference/Companion.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

namespace tensmith::runtime {
namespace {

/// The name comes from a module, and becomes a part of a file's.
bool isKind(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

Device *open(std::string_view name) {
  std::string_view kind = name.substr(0, name.find(':'));
  uint32_t number = 0;
  if (kind.size() < name.size()) {
    const char *end = name.data() + name.size();
    auto read = std::from_chars(name.data() + kind.size() + 1, end, number);
    if (read.ec != std::errc() || read.ptr != end)
      return nullptr;
  }
  if (!isKind(kind))
    return nullptr;
  std::string library = "libtensmith_" + std::string(kind) + ".so";
  auto *open = reinterpret_cast<TensmithOpenDevice *>(
      reference::companionFunction(library.c_str(), "tensmithDevice"));
  return open ? open(number) : nullptr;
}

} // namespace

Device *openDevice(const std::string &name) {
  static std::mutex mutex;
  static std::map<std::string, Device *> opened;
  std::lock_guard lock(mutex);
  if (auto it = opened.find(name); it != opened.end())
    return it->second;
  Device *device = open(name);
  if (device)
    opened.emplace(name, device);
  return device;
}

std::shared_ptr<std::byte> allocateOn(Device &device, int64_t bytes) {
  std::byte *memory = device.allocate(bytes);
  return memory ? std::shared_ptr<std::byte>(memory, [&device](std::byte *p) { device.free(p); })
                : nullptr;
}

} // namespace tensmith::runtime
