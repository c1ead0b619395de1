// Nodes are changed where they stand, in the model as it was parsed.
#include "frontends/onnx/EvaluationForm.h"

#include <set>

namespace tensmith::onnx_import {
namespace {

using Names = std::set<std::string>;
template <typename T> using List = google::protobuf::RepeatedPtrField<T>;

void addRead(const List<onnx::NodeProto> &nodes, Names &read) {
  for (const onnx::NodeProto &node : nodes) {
    read.insert(node.input().begin(), node.input().end());
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      auto add = [&](const onnx::GraphProto &graph) {
        for (const onnx::ValueInfoProto &output : graph.output())
          read.insert(output.name());
        addRead(graph.node(), read);
      };
      if (attribute.has_g())
        add(attribute.g());
      for (const onnx::GraphProto &graph : attribute.graphs())
        add(graph);
    }
  }
}

void evaluateDropout(onnx::NodeProto &node) {
  constexpr int kTrainingMode = 2;
  if (node.input_size() > kTrainingMode)
    node.mutable_input()->DeleteSubrange(kTrainingMode, node.input_size() - kTrainingMode);
}

/// What has read the next statistics reads those that there are, which `after` gives it.
void evaluateBatchNorm(onnx::NodeProto &node, const Names &read,
                       std::vector<onnx::NodeProto> &after) {
  auto *attributes = node.mutable_attribute();
  for (int i = attributes->size(); i-- > 0;)
    if (attributes->Get(i).name() == "training_mode")
      attributes->DeleteSubrange(i, 1);
  for (int i = 1; i < node.output_size() && node.input_size() >= 5; ++i)
    if (read.contains(node.output(i)) && !node.output(i).empty()) {
      onnx::NodeProto &same = after.emplace_back();
      same.set_op_type("Identity");
      same.add_input(node.input(i % 2 ? 3 : 4)); // the mean, the variance, and both once more
      same.add_output(node.output(i));
    }
  if (node.output_size() > 1)
    node.mutable_output()->DeleteSubrange(1, node.output_size() - 1);
}

void evaluateNodes(List<onnx::NodeProto> &nodes, const Names &read) {
  List<onnx::NodeProto> result;
  for (onnx::NodeProto &node : nodes) {
    std::vector<onnx::NodeProto> after;
    bool isStandard = node.domain().empty() || node.domain() == "ai.onnx";
    if (isStandard && node.op_type() == "Dropout")
      evaluateDropout(node);
    if (isStandard && node.op_type() == "BatchNormalization")
      evaluateBatchNorm(node, read, after);
    for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.has_g())
        evaluateNodes(*attribute.mutable_g()->mutable_node(), read);
      for (onnx::GraphProto &graph : *attribute.mutable_graphs())
        evaluateNodes(*graph.mutable_node(), read);
    }
    result.Add(std::move(node));
    for (onnx::NodeProto &other : after)
      result.Add(std::move(other));
  }
  nodes.Swap(&result);
}

} // namespace

void evaluationForm(onnx::ModelProto &model) {
  Names read;
  addRead(model.graph().node(), read);
  for (const onnx::ValueInfoProto &output : model.graph().output())
    read.insert(output.name());
  evaluateNodes(*model.mutable_graph()->mutable_node(), read);
  for (onnx::FunctionProto &function : *model.mutable_functions()) {
    Names readThere(function.output().begin(), function.output().end());
    addRead(function.node(), readThere);
    evaluateNodes(*function.mutable_node(), readThere);
  }
}

} // namespace tensmith::onnx_import
