// Operators that are defined by others: functions of the model and of the standard.
//
// A call is replaced by the function's body. Attributes of body nodes that refer to the function's
// (ref_attr_name) take the call's value or the function's default, or are left out if it has
// neither, in the body's subgraphs, too.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/Schemas.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace tensmith::onnx_import {
namespace {

using AttributeValues = std::map<std::string, const onnx::AttributeProto *>;

void bindAttributes(onnx::NodeProto &node, const AttributeValues &values) {
  auto &attributes = *node.mutable_attribute();
  for (int i = attributes.size(); i-- > 0;) {
    onnx::AttributeProto &attribute = attributes[i];
    if (!attribute.ref_attr_name().empty()) {
      auto value = values.find(attribute.ref_attr_name());
      if (value == values.end()) {
        attributes.DeleteSubrange(i, 1);
        continue;
      }
      std::string name = attribute.name();
      attribute = *value->second;
      attribute.set_name(name);
      continue;
    }
    if (attribute.has_g())
      for (auto &inner : *attribute.mutable_g()->mutable_node())
        bindAttributes(inner, values);
    for (auto &graph : *attribute.mutable_graphs())
      for (auto &inner : *graph.mutable_node())
        bindAttributes(inner, values);
  }
}

} // namespace

onnx::FunctionProto instantiate(const onnx::FunctionProto &function, const onnx::NodeProto &call) {
  AttributeValues values;
  for (const auto &attribute : function.attribute_proto())
    values[attribute.name()] = &attribute;
  for (const auto &attribute : call.attribute())
    values[attribute.name()] = &attribute;
  onnx::FunctionProto instance = function;
  for (auto &node : *instance.mutable_node())
    bindAttributes(node, values);
  return instance;
}

LogicalResult Importer::expandFunction(NodeImport &call, const onnx::FunctionProto &function) {
  if (llvm::is_contained(calls_, &function))
    return call.error("function '" + function.name() + "' calls itself, which ONNX does not allow");
  if (calls_.size() >= size_t(options.maxNesting))
    return call.error("functions are nested more than " + Twine(options.maxNesting) + " deep");
  if (call.inputCount() > size_t(function.input_size()) ||
      call.node.output_size() > function.output_size())
    return call.error("function '" + function.name() + "' has " + Twine(function.input_size()) +
                      " inputs and " + Twine(function.output_size()) +
                      " outputs, and is called with " + Twine(call.inputCount()) + " and " +
                      Twine(call.node.output_size()));
  calls_.push_back(&function);
  auto leave = llvm::make_scope_exit([&] { calls_.pop_back(); });

  model->instances.push_back(instantiate(function, call.node));
  const onnx::FunctionProto &body = model->instances.back();
  Opsets opsets = opsetsOf(body.opset_import());
  Scope scope;
  scope.opsets = &opsets;
  scope.prefix = call.scope.prefix + displayName(call.node) + "/";
  for (int i = 0; i < body.input_size(); ++i)
    scope.values[body.input(i)] = call.input(size_t(i));
  if (failed(importNodes(body.node(), scope, call.graph.location)))
    return failure();
  for (const std::string &output : body.output()) {
    const Value *value = scope.find(output);
    call.results.push_back(value ? *value : Value());
  }
  return success();
}

} // namespace tensmith::onnx_import
