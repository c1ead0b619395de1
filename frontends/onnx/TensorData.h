// ONNX tensors as host tensors, of all the encodings a TensorProto has, and back as raw data.
#pragma once

#include "base/HostTensor.h"
#include "frontends/onnx/ExternalData.h"
#include "onnx-ml.pb.h"

namespace tensmith::onnx_import {

/// Where tensors' bytes may be taken from.
struct TensorSource {
  std::string folder;                ///< of the model; external data lies in it
  bool hasFolder = false;            ///< false: the model is bytes without a place
  std::shared_ptr<const void> owner; ///< keeps the parsed protobuf (and so raw_data) alive
  ExternalFiles *files = nullptr;    ///< of the import; needed where there is a folder
};

/// The tensor's elements, borrowed from where they are if they lie there as we store them. Errors
/// do not name the tensor.
Result<HostTensor> readTensor(const onnx::TensorProto &proto, const TensorSource &source);

/// A tensor of that type and shape whose little-endian, packed bytes are `bytes`.
Result<HostTensor> tensorOfBytes(DataType type, Shape shape, std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> owner);

/// What raw data takes, where elements of less than 8 bits are packed.
int64_t rawBytes(DataType type, int64_t count);

/// The elements as raw data; not of strings.
std::string rawData(const HostTensor &tensor);

/// The same as a dense tensor.
Result<HostTensor> readSparseTensor(const onnx::SparseTensorProto &proto,
                                    const TensorSource &source);

/// The type and shape that a tensor claims, checked.
Result<std::pair<DataType, Shape>> tensorType(const onnx::TensorProto &proto);

} // namespace tensmith::onnx_import
