// Whether ONNX allows the nodes that were made: what the schemas say of element types.
#pragma once

#include "base/DataType.h"
#include "onnx-ml.pb.h"

#include "llvm/ADT/StringMap.h"

namespace tensmith::onnx_export {

/// The element types of a model's values, as far as they are known.
class ValueTypes {
public:
  void set(llvm::StringRef value, DataType type) { types_[value] = type; }

  /// What the operator of the node has not among its types: "is of i8, which ONNX's CumSum has
  /// not"; empty where it has all. Results take types from operands of the same variable.
  std::string check(const onnx::NodeProto &node);

private:
  llvm::StringMap<DataType> types_;
};

} // namespace tensmith::onnx_export
