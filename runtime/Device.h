// Machines beside the host that run kernels, with memory of their own.
//
// A device's addresses are handles: the host can hand them about and count with them, and reaches
// what lies there by copies alone. Kernels and copies are put on streams, and the host goes on. A
// stream does one piece of work after the other; each may wait for what was put on other streams,
// of other devices, too. Since work waits only for what was put on a stream before it, it always
// comes to an end.
//
// A module says by name which devices it was compiled for: "separate:1" is number 1 of the kind
// "separate" (without a number: 0), whose library, libtensmith_separate.so, is opened with the
// first session of such a module.
#pragma once

#include "base/DataType.h"
#include "base/Status.h"
#include "runtime/KernelAbi.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tensmith::runtime {

class Device;

/// What was put on a stream, up to and with its piece of that number. Without a device: nothing,
/// which is over.
struct Event {
  Device *device = nullptr;
  uint32_t stream = 0;
  uint64_t number = 0;
};

/// What failed of a function's work on streams: the first, in the order of its instructions,
/// whichever comes to it first.
class Failures {
public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Whether an earlier instruction has failed: what follows is not to be done any more.
  bool before(uint32_t instruction) const {
    return first_.load(std::memory_order_acquire) < instruction;
  }
  void tell(uint32_t instruction) {
    uint32_t known = first_.load(std::memory_order_relaxed);
    while (instruction < known &&
           !first_.compare_exchange_weak(known, instruction, std::memory_order_release))
      ;
  }
  /// kNone: nothing did.
  uint32_t first() const { return first_.load(std::memory_order_acquire); }
  void clear() { first_.store(kNone, std::memory_order_relaxed); }

private:
  std::atomic<uint32_t> first_{kNone};
};

/// A call of a kernel. The device copies the tables of operands and sizes; it tells `failures` of
/// the instruction where the kernel returns that it failed or has said so (`poll`), and of one
/// whose operands are not all in its memory, which it doesn't call.
struct Launch {
  TensmithKernel kernel;
  const TensmithCall *call;
  size_t operands, sizes; // of the call's tables
  uint32_t instruction;
  Failures *failures;
};

class Device {
public:
  virtual ~Device() = default;

  /// Aligned to 64 bytes; null where there is no room for them. Any number of threads may ask.
  virtual std::byte *allocate(int64_t bytes) = 0;
  /// Of memory that no work uses any more.
  virtual void free(std::byte *memory) = 0;

  // Each puts one piece on a stream, which begins when those of `after` are over; a copy of no byte
  // is one, too, and looks at no address. Streams are
  // numbered by whoever uses them, and come to be as they are used; a device may take several for
  // one.
  virtual Event launch(uint32_t stream, const Launch &launch, std::span<const Event> after) = 0;
  virtual Event copyIn(uint32_t stream, std::byte *to, const std::byte *from, int64_t bytes,
                       std::span<const Event> after) = 0;
  virtual Event copyOut(uint32_t stream, std::byte *to, const std::byte *from, int64_t bytes,
                        std::span<const Event> after) = 0;
  virtual Event copyWithin(uint32_t stream, std::byte *to, const std::byte *from, int64_t bytes,
                           std::span<const Event> after) = 0;

  /// Returns when the event is over.
  virtual void wait(const Event &event) = 0;
};

/// Of any device's.
inline void waitFor(const Event &event) {
  if (event.device)
    event.device->wait(event);
}

/// The process's device of that name; null where its library, or one of its number, is not there.
Device *openDevice(const std::string &name);

/// What opens it, with its number: "separate:0".
const std::string &nameOf(const Device &device);

/// Within one memory, and waits for it; null: the host's.
void copyWithin(Device *device, std::byte *to, const std::byte *from, int64_t bytes);
/// Between any two memories; by way of the host between two devices'. False where it has no memory
/// for that.
[[nodiscard]] bool copyBetween(Device *toDevice, std::byte *to, Device *fromDevice,
                               const std::byte *from, int64_t bytes);

/// Memory of the device's; null where it has none.
std::shared_ptr<std::byte> allocateOn(Device &device, int64_t bytes);

/// What registers of procedures can hold by themselves: procedures pass it in the host's memory,
/// and other tensors in the first device's.
inline bool isSingleNumber(DataType type, size_t rank) {
  return rank == 0 && (type == DataType::Bool || type == DataType::I64 || type == DataType::F32 ||
                       type == DataType::F64);
}

/// A device library exports it under the name "tensmithDevice": the device of that number, or null.
extern "C" typedef Device *TensmithOpenDevice(uint32_t number);

} // namespace tensmith::runtime
