// Copies between a tensor's two memories, by the C API.
#include "eager/Device.h"

#include <tensmith/tensmith.h>

#include <map>

namespace tensmith::eager {
namespace {

Status statusOf(ts_status *given) {
  if (!given)
    return {};
  Status status(StatusCode(ts_status_get_code(given)), ts_status_message(given));
  ts_status_free(given);
  return status;
}

} // namespace

Result<const Device *> findDevice(const std::string &name) {
  if (name == "cpu")
    return static_cast<const Device *>(nullptr);
  static std::mutex mutex;
  static auto &devices = *new std::map<std::string, Device>(); // tensors may outlive static objects
  // The runtime opens it, and knows its full name.
  ts_tensor *nothing = nullptr;
  int64_t none = 0;
  if (Status status = statusOf(ts_tensor_create_on(name.c_str(), TS_U8, &none, 1, &nothing));
      !status.ok())
    return status;
  std::string full = ts_tensor_device(nothing);
  ts_tensor_free(nothing);
  std::lock_guard lock(mutex);
  return &devices.try_emplace(full, Device{full}).first->second;
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::allocate(const Device &device, std::byte *host,
                                                             int64_t bytes) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(device));
  Status status =
      statusOf(ts_tensor_create_on(device.name.c_str(), TS_U8, &bytes, 1, &memory->onDevice_));
  if (status.ok())
    status = statusOf(ts_tensor_borrow(TS_U8, &bytes, 1, host, nullptr, nullptr, &memory->onHost_));
  if (!status.ok())
    return status;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  ts_tensor_free(onHost_);
  ts_tensor_free(onDevice_);
}

std::byte *DeviceMemory::address() const {
  return static_cast<std::byte *>(ts_tensor_data(onDevice_));
}

/// Makes one memory good where the other is. Both are tensors of as many bytes, so that only a
/// device that fails fails them; what is read is then what was there.
static void makeGood(ts_tensor *memory, bool &isGood, ts_tensor *other, bool isOtherGood) {
  if (isOtherGood && !isGood)
    ts_status_free(ts_tensor_assign(memory, other));
  isGood |= isOtherGood;
}

void DeviceMemory::readOnHost() const {
  std::lock_guard lock(mutex_);
  makeGood(onHost_, isHostGood_, onDevice_, isDeviceGood_);
}

void DeviceMemory::readOnDevice() const {
  std::lock_guard lock(mutex_);
  makeGood(onDevice_, isDeviceGood_, onHost_, isHostGood_);
}

void DeviceMemory::writeOnHost() {
  std::lock_guard lock(mutex_);
  makeGood(onHost_, isHostGood_, onDevice_, isDeviceGood_);
  isHostGood_ = true;
  isDeviceGood_ = false;
}

void DeviceMemory::writeOnDevice() {
  std::lock_guard lock(mutex_);
  isDeviceGood_ = true;
  isHostGood_ = false;
}

} // namespace tensmith::eager
