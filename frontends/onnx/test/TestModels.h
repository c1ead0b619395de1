// Small models for the tests, made as messages.
#pragma once

#include "frontends/onnx/Import.h"
#include "onnx-ml.pb.h"

#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

namespace onnx_test {

inline std::span<const std::byte> span(const std::string &bytes) {
  return {reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()};
}

class Builder {
public:
  Builder(int64_t opset = 17) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("graph");
  }
  onnx::ValueInfoProto &input(const std::string &name, std::vector<int64_t> shape) {
    auto &info = *proto.mutable_graph()->add_input();
    info.set_name(name);
    auto &tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx::TensorProto::FLOAT);
    tensor.mutable_shape();
    for (int64_t size : shape)
      tensor.mutable_shape()->add_dim()->set_dim_value(size);
    return info;
  }
  /// Zeros, as raw data.
  onnx::TensorProto &weight(const std::string &name, std::vector<int64_t> shape) {
    auto &tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    size_t bytes = 4;
    for (int64_t size : shape) {
      tensor.add_dims(size);
      bytes *= size_t(size);
    }
    tensor.set_raw_data(std::string(bytes, '\0'));
    return tensor;
  }
  onnx::TensorProto &integers(const std::string &name, std::vector<int64_t> values) {
    auto &tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(int64_t(values.size()));
    for (int64_t value : values)
      tensor.add_int64_data(value);
    return tensor;
  }
  onnx::NodeProto &node(const std::string &op, std::vector<std::string> inputs,
                        std::vector<std::string> outputs, const std::string &name = "") {
    auto &node = *proto.mutable_graph()->add_node();
    node.set_op_type(op);
    node.set_name(name);
    for (auto &input : inputs)
      node.add_input(input);
    for (auto &output : outputs)
      node.add_output(output);
    return node;
  }
  void output(const std::string &name) { proto.mutable_graph()->add_output()->set_name(name); }
  std::string bytes() const { return proto.SerializeAsString(); }

  onnx::ModelProto proto;
};

} // namespace onnx_test
