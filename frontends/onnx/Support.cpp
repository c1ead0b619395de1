// Finds every node of a model that nothing can import, before anything is imported: whoever has a
// model wants to know all that is missing, not the first.
#include "frontends/onnx/Importer.h"
#include "frontends/onnx/Operators.h"
#include "frontends/onnx/Schemas.h"

#include <set>

namespace tensmith::onnx_import {
namespace {

class Check {
public:
  explicit Check(const Model &model) : model_(model) {}

  void visit(const Nodes &nodes, const Opsets &opsets, const std::string &place) {
    if (depth_ == kMaxDepth) // the import says that functions are nested too deep
      return;
    ++depth_;
    for (const onnx::NodeProto &node : nodes)
      visit(node, opsets, place);
    --depth_;
  }

  const std::vector<std::string> &missing() const { return missing_; }

private:
  void visit(const onnx::NodeProto &node, const Opsets &opsets, const std::string &place) {
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_g())
        visit(attribute.g().node(), opsets, place);
      for (const auto &graph : attribute.graphs())
        visit(graph.node(), opsets, place);
    }
    if (const onnx::FunctionProto *function = localFunction(node)) {
      if (seen_.insert(function).second)
        visit(function->node(), opsetsOf(function->opset_import()),
              " in function '" + function->name() + "'");
      return;
    }
    std::string domain(canonicalDomain(node.domain()));
    auto imported = opsets.find(domain);
    int64_t opset = imported == opsets.end() ? 0 : imported->second;
    const onnx::FunctionProto *schema = findSchema(domain, node.op_type(), opset);
    if (findRule(domain, node.op_type()))
      return;
    if (schema && schema->node_size() > 0) {
      if (seen_.insert(schema).second)
        visit(schema->node(), opsetsOf(schema->opset_import()),
              " in the definition of '" + schema->name() + "'");
      return;
    }
    missing_.push_back(
        describe(node) + place + ": operator '" + node.op_type() + "', domain '" +
        (domain.empty() ? "ai.onnx" : domain) + "', " +
        (opset ? "opset " + std::to_string(opset) : "which the model does not import"));
  }

  const onnx::FunctionProto *localFunction(const onnx::NodeProto &node) const {
    for (const auto &function : model_.proto.functions())
      if (function.name() == node.op_type() && function.overload() == node.overload() &&
          canonicalDomain(function.domain()) == canonicalDomain(node.domain()))
        return &function;
    return nullptr;
  }

  static constexpr int kMaxDepth = 1000;

  const Model &model_;
  int depth_ = 0;
  std::set<const onnx::FunctionProto *> seen_;
  std::vector<std::string> missing_;
};

} // namespace

Status checkOperatorsSupported(const Model &model, const Opsets &opsets) {
  Check check(model);
  check.visit(model.proto.graph().node(), opsets, "");
  if (check.missing().empty())
    return {};
  std::string message = "has " + std::to_string(check.missing().size()) +
                        (check.missing().size() == 1 ? " node" : " nodes") +
                        " of operators that are not supported:";
  for (const std::string &line : check.missing())
    message += "\n  " + line;
  return unsupported(std::move(message));
}

} // namespace tensmith::onnx_import
