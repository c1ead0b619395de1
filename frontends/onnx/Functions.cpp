// Operators that are defined by others: functions of the model and of the standard.
//
// A call is replaced by the function's body. Attributes of body nodes that refer to the function's
// (ref_attr_name) take the call's value or the function's default, or are left out if it has
// neither, in the body's subgraphs, too. Only a body with such references is copied for a call,
// since it may hold weights; what is copied is limited in all.
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

template <typename Nodes> bool anyRefers(const Nodes &nodes) {
  for (const auto &node : nodes)
    for (const auto &attribute : node.attribute()) {
      if (!attribute.ref_attr_name().empty() || anyRefers(attribute.g().node()))
        return true;
      for (const auto &graph : attribute.graphs())
        if (anyRefers(graph.node()))
          return true;
    }
  return false;
}

} // namespace

bool refersToAttributes(const onnx::FunctionProto &function) { return anyRefers(function.node()); }

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

/// Null, with an error, where the copies are too large in all.
const onnx::FunctionProto *Importer::bodyFor(NodeImport &call,
                                             const onnx::FunctionProto &function) {
  auto [refers, isNew] = refersToAttributes_.try_emplace(&function);
  if (isNew)
    refers->second = refersToAttributes(function);
  if (!refers->second)
    return &function;
  instanceBytes_ += int64_t(function.ByteSizeLong() + call.node.ByteSizeLong());
  if (instanceBytes_ > options.maxInstanceBytes) {
    (void)call.error("function '" + function.name() +
                     "' is copied for each of its calls' attributes, and the copies have more "
                     "than the limit of " +
                     Twine(options.maxInstanceBytes) +
                     " bytes; make its weights initialisers of the model that it takes as inputs");
    return nullptr;
  }
  model->instances.push_back(instantiate(function, call.node));
  return &model->instances.back();
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

  const onnx::FunctionProto *found = bodyFor(call, function);
  if (!found)
    return failure();
  const onnx::FunctionProto &body = *found;
  Opsets opsets = opsetsOf(body.opset_import());
  Scope scope;
  scope.opsets = &opsets;
  scope.isStandardBody = localFunction(call.node) != &function;
  scope.prefix = call.scope.prefix + displayName(call.node) + "/";
  for (int i = 0; i < body.input_size(); ++i)
    scope.values[body.input(i)] = call.input(size_t(i));
  SmallVector<std::string> outputs(body.output().begin(), body.output().end());
  if (failed(importNodes(body.node(), outputs, scope, call.graph.location)))
    return failure();
  for (const std::string &output : body.output()) {
    const Value *value = scope.find(output);
    call.results.push_back(value ? *value : Value());
  }
  return success();
}

} // namespace tensmith::onnx_import
