// Opens devices; see Device.h.
#include "runtime/Device.h"

#include "reference/Companion.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>

namespace tensmith::runtime {
namespace {

/// The name comes from a module, and becomes a part of a file's.
bool isKind(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

/// "separate" as "separate:0"; nothing where it is no device's name.
std::optional<std::pair<std::string, uint32_t>> parsed(std::string_view name) {
  std::string_view kind = name.substr(0, name.find(':'));
  uint32_t number = 0;
  if (kind.size() < name.size()) {
    const char *end = name.data() + name.size();
    auto read = std::from_chars(name.data() + kind.size() + 1, end, number);
    if (read.ec != std::errc() || read.ptr != end)
      return std::nullopt;
  }
  if (!isKind(kind))
    return std::nullopt;
  return std::pair(std::string(kind), number);
}

Device *open(const std::string &kind, uint32_t number) {
  std::string library = "libtensmith_" + kind + ".so";
  auto *open = reinterpret_cast<TensmithOpenDevice *>(
      reference::companionFunction(library.c_str(), "tensmithDevice"));
  return open ? open(number) : nullptr;
}

/// By their names with numbers. Never destroyed: devices outlive everything.
struct Opened {
  std::mutex mutex;
  std::map<std::string, Device *> devices;
};
Opened &opened() {
  static Opened &all = *new Opened();
  return all;
}

} // namespace

Device *openDevice(const std::string &name) {
  auto known = parsed(name);
  if (!known)
    return nullptr;
  std::string full = known->first + ":" + std::to_string(known->second);
  auto &[mutex, devices] = opened();
  std::lock_guard lock(mutex);
  if (auto it = devices.find(full); it != devices.end())
    return it->second;
  Device *device = open(known->first, known->second);
  if (device)
    devices.emplace(full, device);
  return device;
}

const std::string &nameOf(const Device &device) {
  static const std::string none;
  auto &[mutex, devices] = opened();
  std::lock_guard lock(mutex);
  for (const auto &[name, known] : devices)
    if (known == &device)
      return name;
  return none;
}

void copyWithin(Device *device, std::byte *to, const std::byte *from, int64_t bytes) {
  if (bytes == 0 || to == from)
    return;
  if (device)
    waitFor(device->copyWithin(0, to, from, bytes, {}));
  else
    std::memmove(to, from, size_t(bytes));
}

bool copyBetween(Device *toDevice, std::byte *to, Device *fromDevice, const std::byte *from,
                 int64_t bytes) {
  if (toDevice == fromDevice) {
    copyWithin(toDevice, to, from, bytes);
    return true;
  }
  if (bytes == 0)
    return true;
  if (!fromDevice) {
    waitFor(toDevice->copyIn(0, to, from, bytes, {}));
  } else if (!toDevice) {
    waitFor(fromDevice->copyOut(0, to, from, bytes, {}));
  } else {
    std::unique_ptr<std::byte[]> between(new (std::nothrow) std::byte[size_t(bytes)]);
    if (!between)
      return false;
    waitFor(fromDevice->copyOut(0, between.get(), from, bytes, {}));
    waitFor(toDevice->copyIn(0, to, between.get(), bytes, {}));
  }
  return true;
}

std::shared_ptr<std::byte> allocateOn(Device &device, int64_t bytes) {
  std::byte *memory = device.allocate(bytes);
  return memory ? std::shared_ptr<std::byte>(memory, [&device](std::byte *p) { device.free(p); })
                : nullptr;
}

} // namespace tensmith::runtime
