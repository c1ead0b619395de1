// What a model declares of itself; see Interface.h.
#include "frontends/onnx/Interface.h"

#include "frontends/onnx/Model.h"

#include <set>

namespace tensmith {
namespace {

/// ONNX's names of its element types, by number.
std::string elementName(int number) {
  static constexpr const char *kNames[] = {"",
                                           "float",
                                           "uint8",
                                           "int8",
                                           "uint16",
                                           "int16",
                                           "int32",
                                           "int64",
                                           "string",
                                           "bool",
                                           "float16",
                                           "double",
                                           "uint32",
                                           "uint64",
                                           "complex64",
                                           "complex128",
                                           "bfloat16",
                                           "float8e4m3fn",
                                           "float8e4m3fnuz",
                                           "float8e5m2",
                                           "float8e5m2fnuz",
                                           "uint4",
                                           "int4",
                                           "float4e2m1",
                                           "float8e8m0",
                                           "uint2",
                                           "int2"};
  bool isKnown = number > 0 && size_t(number) < std::size(kNames);
  return isKnown ? kNames[number] : "";
}

/// Nesting is bounded, as the file's was when it was parsed.
std::string typeName(const onnx::TypeProto &type) {
  if (type.has_tensor_type())
    return "tensor(" + elementName(type.tensor_type().elem_type()) + ")";
  if (type.has_sparse_tensor_type())
    return "sparse_tensor(" + elementName(type.sparse_tensor_type().elem_type()) + ")";
  if (type.has_sequence_type())
    return "seq(" + typeName(type.sequence_type().elem_type()) + ")";
  if (type.has_optional_type())
    return "optional(" + typeName(type.optional_type().elem_type()) + ")";
  if (type.has_map_type())
    return "map(" + elementName(type.map_type().key_type()) + "," +
           typeName(type.map_type().value_type()) + ")";
  return "";
}

std::string dimText(const onnx::TensorShapeProto::Dimension &dim) {
  if (dim.has_dim_value())
    return dim.dim_value() < 0 ? "" : std::to_string(dim.dim_value());
  return dim.dim_param();
}

DeclaredPort portOf(const onnx::ValueInfoProto &value) {
  DeclaredPort port;
  port.name = value.name();
  port.type = typeName(value.type());
  port.ranked = value.type().has_tensor_type() && value.type().tensor_type().has_shape();
  for (const auto &dim : value.type().tensor_type().shape().dim())
    port.dims.push_back(dimText(dim));
  return port;
}

Result<ModelInterface> interfaceOf(const Result<std::shared_ptr<onnx_import::Model>> &model) {
  if (!model.ok())
    return model.status();
  const onnx::ModelProto &proto = (**model).proto;
  const onnx::GraphProto &graph = proto.graph();
  ModelInterface result;
  result.producer = proto.producer_name();
  result.domain = proto.domain();
  result.graph = graph.name();
  result.description = proto.doc_string();
  result.graphDescription = graph.doc_string();
  result.version = proto.model_version();
  for (const auto &entry : proto.metadata_props())
    result.metadata[entry.key()] = entry.value();
  std::set<std::string> initialized;
  for (const auto &tensor : graph.initializer())
    initialized.insert(tensor.name());
  for (const auto &tensor : graph.sparse_initializer())
    initialized.insert(tensor.values().name());
  for (const auto &input : graph.input()) {
    result.inputs.push_back(portOf(input));
    result.inputs.back().initialized = initialized.count(input.name()) > 0;
  }
  for (const auto &output : graph.output())
    result.outputs.push_back(portOf(output));
  return result;
}

} // namespace

Result<ModelInterface> interfaceOfFile(const std::string &path) {
  return interfaceOf(onnx_import::readModel(path, ImportOptions()));
}

Result<ModelInterface> interfaceOfBytes(std::span<const std::byte> bytes, const std::string &name) {
  return interfaceOf(onnx_import::parseModel(bytes, name, ImportOptions()));
}

} // namespace tensmith
