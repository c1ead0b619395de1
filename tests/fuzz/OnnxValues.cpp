// Changes to a model's tensors, types and attributes; see OnnxMutator.h.
#include "tests/fuzz/OnnxMutator.h"

namespace tensmith::fuzz {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

constexpr int kTypes = 30; // element types, and two numbers that are none

int elementType(Draw &draw) {
  static constexpr int kUsual[] = {TensorProto::FLOAT, TensorProto::INT64, TensorProto::INT32,
                                   TensorProto::UINT8, TensorProto::BOOL,  TensorProto::FLOAT16};
  return draw.oneIn(3) ? int(draw.below(kTypes)) : draw.among(kUsual);
}

template <typename Field> void changeNumbers(Field &field, Draw &draw) {
  using Number = std::decay_t<decltype(field.Get(0))>;
  switch (draw.below(field.size() ? 4 : 1)) {
  case 0:
    field.Add(Number(std::is_floating_point_v<Number> ? draw.real() : double(draw.integer() % 97)));
    break;
  case 1:
    field.RemoveLast();
    break;
  default:
    if constexpr (std::is_floating_point_v<Number>)
      field.Set(int(draw.below(field.size())), Number(draw.real()));
    else
      field.Set(int(draw.below(field.size())), Number(draw.integer()));
  }
}

void changeBytes(std::string &bytes, Draw &draw) {
  if (bytes.empty() || draw.oneIn(6))
    return bytes.resize(draw.below(bytes.size() + 17));
  size_t at = draw.below(bytes.size());
  if (draw.oneIn(2) && bytes.size() >= 8) { // an element of a list of sizes or indices
    int64_t value = draw.integer();
    std::memcpy(bytes.data() + std::min(at / 8 * 8, bytes.size() - 8), &value, sizeof(value));
  } else {
    bytes[at] = char(draw.bits());
  }
}

void makeExternal(TensorProto &tensor, Draw &draw) {
  static constexpr const char *kLocations[] = {"weights",
                                               "sub/weights",
                                               "../secret",
                                               "link",
                                               "folder/secret",
                                               "/etc/passwd",
                                               "hard",
                                               "",
                                               ".",
                                               "sub",
                                               "./weights",
                                               "sub/../../secret",
                                               "pipe",
                                               "weights\n"};
  auto entry = [&](const char *key, std::string value) {
    auto &added = *tensor.add_external_data();
    added.set_key(key);
    added.set_value(std::move(value));
  };
  tensor.set_data_location(TensorProto::EXTERNAL);
  tensor.clear_raw_data();
  tensor.clear_external_data();
  entry("location", draw.among(kLocations));
  if (draw.oneIn(2))
    entry("offset", std::to_string(draw.integer()));
  if (draw.oneIn(2))
    entry("length", std::to_string(draw.integer()));
}

void changeDims(google::protobuf::RepeatedField<int64_t> &dims, Draw &draw) {
  if (dims.size() > 1 && draw.oneIn(4))
    return dims.SwapElements(0, int(draw.below(dims.size())));
  changeNumbers(dims, draw);
}

void changeShape(onnx::TensorShapeProto &shape, Draw &draw) {
  static constexpr const char *kNames[] = {"n", "batch", "seq", "", "-1", "N", "a b", "n+1"};
  if (!shape.dim_size() || draw.oneIn(6))
    shape.add_dim();
  auto &dim = *shape.mutable_dim(int(draw.below(shape.dim_size())));
  switch (draw.below(5)) {
  case 0:
    return dim.set_dim_param(draw.among(kNames));
  case 1:
    return dim.Clear();
  case 2:
    return shape.mutable_dim()->RemoveLast();
  default:
    return dim.set_dim_value(draw.integer());
  }
}

void setAny(AttributeProto &attribute, Draw &draw) {
  static constexpr const char *kWords[] = {
      "",          "NOTSET",  "SAME_UPPER",    "VALID",    "linear", "cubic",
      "edge",      "reflect", "nearest",       "floor",    "add",    "none",
      "ij,jk->ik", "LRU",     "bidirectional", "\xff\xfe", "Tanh"};
  switch (draw.below(6)) {
  case 0:
    attribute.set_type(AttributeProto::FLOAT);
    return attribute.set_f(float(draw.real()));
  case 1:
    attribute.set_type(AttributeProto::STRING);
    return attribute.set_s(draw.among(kWords));
  case 2:
    attribute.set_type(AttributeProto::FLOATS);
    return changeNumbers(*attribute.mutable_floats(), draw);
  case 3:
    attribute.set_type(AttributeProto::INTS);
    for (uint64_t count = draw.below(4); count < 4; ++count)
      attribute.add_ints(draw.integer());
    return;
  default:
    attribute.set_type(AttributeProto::INT);
    return attribute.set_i(draw.integer());
  }
}

} // namespace

void mutateTensor(TensorProto &tensor, Draw &draw) {
  switch (draw.below(8)) {
  case 0:
  case 1:
    return changeDims(*tensor.mutable_dims(), draw);
  case 2:
    return tensor.set_data_type(elementType(draw));
  case 3:
    return changeNumbers(*tensor.mutable_int64_data(), draw);
  case 4:
    return changeNumbers(*tensor.mutable_float_data(), draw);
  case 5:
    return changeNumbers(*tensor.mutable_int32_data(), draw);
  case 6:
    if (draw.oneIn(8))
      return makeExternal(tensor, draw);
    [[fallthrough]];
  default:
    if (tensor.int64_data_size())
      return changeNumbers(*tensor.mutable_int64_data(), draw);
    changeBytes(*tensor.mutable_raw_data(), draw);
  }
}

void mutateType(onnx::TypeProto &type, Draw &draw) {
  onnx::TypeProto inner = type;
  switch (draw.below(11)) {
  case 10:
    type.mutable_map_type()->set_key_type(elementType(draw));
    *type.mutable_map_type()->mutable_value_type() = inner;
    return;
  case 0:
    *type.mutable_sequence_type()->mutable_elem_type() = inner;
    return;
  case 1:
    *type.mutable_optional_type()->mutable_elem_type() = inner;
    return;
  case 2:
    if (type.has_sequence_type())
      type = inner.sequence_type().elem_type();
    else
      type.mutable_tensor_type()->clear_shape();
    return;
  case 3:
  case 4:
    return type.mutable_tensor_type()->set_elem_type(elementType(draw));
  default:
    return changeShape(*type.mutable_tensor_type()->mutable_shape(), draw);
  }
}

void mutateAttribute(AttributeProto &attribute, Draw &draw) {
  if (draw.oneIn(8))
    return setAny(attribute, draw);
  if (draw.oneIn(16))
    return attribute.set_type(AttributeProto::AttributeType(draw.below(15)));
  if (attribute.ints_size() || attribute.type() == AttributeProto::INTS)
    return changeNumbers(*attribute.mutable_ints(), draw);
  if (attribute.floats_size())
    return changeNumbers(*attribute.mutable_floats(), draw);
  if (attribute.has_i())
    return attribute.set_i(draw.integer());
  if (attribute.has_f())
    return attribute.set_f(float(draw.real()));
  if (attribute.has_t())
    return mutateTensor(*attribute.mutable_t(), draw);
  setAny(attribute, draw);
}

void addAttribute(onnx::NodeProto &node, Draw &draw) {
  std::vector<const onnx::FunctionProto *> versions;
  for (const onnx::FunctionProto &schema : schemas().functions())
    if (schema.name() == node.op_type())
      versions.push_back(&schema);
  AttributeProto &added = *node.add_attribute();
  const onnx::FunctionProto *schema = versions.empty() ? nullptr : draw.among(versions);
  if (schema && schema->attribute_proto_size() && draw.oneIn(2)) {
    added = draw.among(schema->attribute_proto());
    return mutateAttribute(added, draw);
  }
  added.set_name(schema && schema->attribute_size() ? draw.among(schema->attribute()) : "axis");
  setAny(added, draw);
}

} // namespace tensmith::fuzz
