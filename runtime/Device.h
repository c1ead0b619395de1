// A machine beside the host that runs kernels, with memory of its own.
//
// Its addresses are handles: the host can hand them about and count with them, and reaches what
// lies there by copies alone. A module says by name which device it was compiled for; the library
// of that name, libtensmith_<name>.so, is opened with the first session of such a module.
#pragma once

#include "base/DataType.h"
#include "base/Status.h"
#include "runtime/KernelAbi.h"

#include <cstddef>
#include <memory>
#include <string_view>

namespace tensmith::runtime {

class Device {
public:
  virtual ~Device() = default;

  /// Aligned to 64 bytes; null where there is no room for them. Any number of threads may ask.
  virtual std::byte *allocate(int64_t bytes) = 0;
  virtual void free(std::byte *memory) = 0;
  virtual void copyIn(std::byte *to, const std::byte *from, int64_t bytes) = 0;
  virtual void copyOut(std::byte *to, const std::byte *from, int64_t bytes) = 0;
  virtual void copyWithin(std::byte *to, const std::byte *from, int64_t bytes) = 0;

  /// Calls a kernel whose first so many operands are in the device's memory: what it returns, or
  /// kForeign where one of them is not.
  virtual int32_t run(TensmithKernel kernel, const TensmithCall &call, size_t operands) = 0;
  static constexpr int32_t kForeign = INT32_MIN;
};

/// The process's device of that name; null where its library is not there.
Device *openDevice(std::string_view name);
/// The one that was opened.
Device &openedDevice();

/// Memory of the opened device's; null where it has none.
std::shared_ptr<std::byte> allocateOnDevice(int64_t bytes);

/// What registers of procedures can hold by themselves: procedures pass it in the host's memory,
/// and other tensors in the device's.
inline bool isSingleNumber(DataType type, size_t rank) {
  return rank == 0 && (type == DataType::Bool || type == DataType::I64 || type == DataType::F32 ||
                       type == DataType::F64);
}

/// A device library exports it under the name "tensmithDevice".
extern "C" typedef Device *TensmithOpenDevice();

} // namespace tensmith::runtime
