// Nodes of other domains than the standard's, by the names that plug-ins have given their operators
// (compiler/graph/ModelNames.h): operands and attributes are the operator's own.
#include "compiler/graph/ModelNames.h"
#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {
namespace {

const graph::ModelName *findName(std::string_view domain, std::string_view name) {
  return graph::modelNames().find(std::string(domain) + ":" + std::string(name));
}

/// Null of a kind that operators have none of: tensors, graphs and types.
mlir::Attribute attributeOf(mlir::Builder &builder, const onnx::AttributeProto &attribute) {
  switch (attribute.type()) {
  case onnx::AttributeProto::INT:
    return builder.getI64IntegerAttr(attribute.i());
  case onnx::AttributeProto::FLOAT:
    return builder.getF64FloatAttr(double(attribute.f()));
  case onnx::AttributeProto::STRING:
    return builder.getStringAttr(attribute.s());
  case onnx::AttributeProto::INTS:
    return builder.getDenseI64ArrayAttr(Ints(attribute.ints().begin(), attribute.ints().end()));
  case onnx::AttributeProto::FLOATS:
    return builder.getDenseF64ArrayAttr(
        SmallVector<double>(attribute.floats().begin(), attribute.floats().end()));
  default:
    return {};
  }
}

LogicalResult importNamed(NodeImport &n) {
  SmallVector<Value> operands;
  for (size_t i = 0; i < n.inputCount(); ++i)
    operands.push_back(n.maybe(i));
  SmallVector<NamedAttribute> attributes;
  for (const onnx::AttributeProto &attribute : n.node.attribute()) {
    mlir::Attribute value = attributeOf(n.builder, attribute);
    if (!value)
      return n.error("attribute '" + attribute.name() +
                     "' is no number, no text and no list of numbers");
    attributes.push_back(n.builder.getNamedAttr(attribute.name(), value));
  }
  StringRef name = findName(n.node.domain(), n.node.op_type())->graph;
  return n.give(n.graph.create(name, operands, attributes));
}

} // namespace

Rule findNamedRule(std::string_view domain, std::string_view name) {
  return findName(domain, name) ? importNamed : nullptr;
}

} // namespace tensmith::onnx_import
