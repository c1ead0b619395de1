// Devices of the runtime (runtime/Device.h), as eager tensors lie on them.
//
// A tensor of a device has memory there, where compiled kernels and programs read and write it, and
// as much in the host's, where the host does what has no kernel, copies views, takes indices and
// prints. Each memory is good or not; whoever reads one
// that is not gets a copy of the other first, and whoever writes one makes the other no good. So a
// copy is made only where a reader needs one, and nothing else of eager tensors knows of two
// memories.
#pragma once

#include "base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

typedef struct ts_tensor ts_tensor;

namespace tensmith::eager {

/// One for each device of the process, for as long as it lives.
struct Device {
  std::string name; // "separate:0"
};

/// By its name, with or without a number; null for "cpu". An error where there is no such device.
Result<const Device *> findDevice(const std::string &name);

/// A storage's memory on a device, beside its memory on the host. Any number of threads may ask;
/// who reads and who writes take turns by the engine.
class DeviceMemory {
public:
  /// `host` has room for as many bytes, and outlives it. Neither memory is good yet.
  static Result<std::unique_ptr<DeviceMemory>> allocate(const Device &device, std::byte *host,
                                                        int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;

  const Device &device() const { return device_; }
  std::byte *address() const; // on the device
  void readOnHost() const;
  void writeOnHost(); // a part of it
  void readOnDevice() const;
  void writeOnDevice(); // all of it

private:
  explicit DeviceMemory(const Device &device) : device_(device) {}

  const Device &device_;
  ts_tensor *onHost_ = nullptr, *onDevice_ = nullptr; // their bytes
  mutable std::mutex mutex_;
  mutable bool isHostGood_ = false, isDeviceGood_ = false;
};

} // namespace tensmith::eager
