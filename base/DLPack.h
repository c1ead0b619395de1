// The structures of DLPack's C ABI and its element types, as its specification gives them
// (dmlc.github.io/dlpack, version 1.1). Conversions are their users'.
//
// The structures bear the names of the specification in the global namespace, so that a program
// that includes dlpack.h itself sees the same `DLManagedTensor` that tensmith.h declares.
#pragma once

#include "base/DataType.h"

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

/// Of versions before 1.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensor *self);
};

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

/// From version 1 on.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(DLManagedTensorVersioned *self);
  uint64_t flags; // 1: may only be read, 2: is a copy
  DLTensor dl_tensor;
};
}

namespace tensmith {

struct DLPackElement {
  DataType type;
  uint8_t code; // kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLComplex 5, kDLBool 6, floats of
                // 8 bits and of 4
  uint8_t bits;
};

inline constexpr DLPackElement kDLPackElements[] = {
    {DataType::I8, 0, 8},          {DataType::I16, 0, 16},        {DataType::I32, 0, 32},
    {DataType::I64, 0, 64},        {DataType::U8, 1, 8},          {DataType::U16, 1, 16},
    {DataType::U32, 1, 32},        {DataType::U64, 1, 64},        {DataType::F16, 2, 16},
    {DataType::F32, 2, 32},        {DataType::F64, 2, 64},        {DataType::BF16, 4, 16},
    {DataType::C64, 5, 64},        {DataType::C128, 5, 128},      {DataType::Bool, 6, 8},
    {DataType::F8E4M3FN, 10, 8},   {DataType::F8E4M3FNUZ, 11, 8}, {DataType::F8E5M2, 12, 8},
    {DataType::F8E5M2FNUZ, 13, 8}, {DataType::F8E8M0, 14, 8},     {DataType::F4E2M1, 17, 4},
    {DataType::I4, 0, 4},          {DataType::U4, 1, 4},          {DataType::I2, 0, 2},
    {DataType::U2, 1, 2},
};

} // namespace tensmith
