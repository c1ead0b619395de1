// The structures of DLPack's C ABI, as its specification gives them (dmlc.github.io/dlpack, version
// 0.8 and the element types of 1.1), and their conversion from and to tensors.
//
// The structures bear the names of the specification in the global namespace, so that a program
// that includes dlpack.h itself sees the same `DLManagedTensor` that tensmith.h declares.
#pragma once

#include "runtime/Tensor.h"

#include <cstdint>

extern "C" {

struct DLDevice {
  int32_t device_type; // kDLCPU = 1, kDLCUDAHost = 3
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; // in elements; null: row-major
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensor *self);
};
}

namespace tensmith::runtime {

/// Takes over `managed` when it succeeds: its deleter runs when the tensor goes, or before the
/// return where the elements had to be copied (strides, alignment). On failure it stays the
/// caller's.
Result<TensorRef> fromDlpack(DLManagedTensor *managed);

/// A view that keeps the tensor; the receiver calls its deleter.
Result<DLManagedTensor *> toDlpack(const TensorRef &tensor);

} // namespace tensmith::runtime
