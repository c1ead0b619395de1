// A model of opset 13 to 20 as one of opset 21, which has codes of 4 and 16 bits, and groups.
//
// Most operators only took more types in between. Those that changed are rewritten: reductions have
// their axes as an input since 18, Split says how many parts it makes since 18, RoiAlign has
// another default since 16, and GridSample calls its modes differently since 20. What can't be
// rewritten is refused.
#include "quantize/ModelGraph.h"

#include <array>

namespace tensmith::quantize {
namespace {

constexpr int64_t kTarget = 21;

bool isReduction(const onnx::NodeProto &node) {
  return node.op_type().starts_with("Reduce") && node.op_type() != "ReduceSum";
}

void dropAttribute(onnx::NodeProto &node, const std::string &name) {
  for (int i = 0; i < node.attribute_size(); ++i)
    if (node.attribute(i).name() == name)
      return node.mutable_attribute()->DeleteSubrange(i, 1);
}

void rewriteReduction(ModelGraph &model, onnx::NodeProto &node) {
  const onnx::AttributeProto *axes = findAttribute(node, "axes");
  if (!axes)
    return;
  std::vector<int64_t> values(axes->ints().begin(), axes->ints().end());
  auto tensor = HostTensor::of<int64_t>(DataType::I64, {int64_t(values.size())}, values);
  node.add_input(model.addConstant(nameOf(node) + "_axes", tensor));
  dropAttribute(node, "axes");
}

void setText(onnx::NodeProto &node, const std::string &name, const std::string &value) {
  dropAttribute(node, name);
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

void rewriteSampling(onnx::NodeProto &node) {
  const onnx::AttributeProto *mode = findAttribute(node, "mode");
  std::string given = mode ? mode->s() : "bilinear";
  if (given.starts_with("bi"))
    setText(node, "mode", given.substr(2));
}

Status rewrite(ModelGraph &model, onnx::NodeProto &node, int64_t from) {
  const std::string &op = node.op_type();
  bool isRefused = (op == "DFT" && from < 20) || (op == "GroupNormalization" && from >= 18) ||
                   (op == "Upsample") || (op == "Scatter");
  if (isRefused)
    return unsupported("node '" + nameOf(node) + "' (" + op + ") has another form in opset " +
                       std::to_string(kTarget) + ", which these codes need; export the model anew");
  if (from < 18 && isReduction(node))
    rewriteReduction(model, node);
  if (from < 18 && op == "Split" && node.input_size() < 2)
    setAttribute(node, "num_outputs", node.output_size());
  if (from < 16 && op == "RoiAlign")
    setText(node, "coordinate_transformation_mode", "output_half_pixel");
  if (from < 20 && op == "GridSample")
    rewriteSampling(node);
  return {};
}

/// Subgraphs are of the model's opset, too.
bool hasSubgraph(const onnx::NodeProto &node) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.has_g() || attribute.graphs_size() > 0)
      return true;
  return false;
}

} // namespace

Status ModelGraph::raiseOpset() {
  int64_t from = opset();
  if (from >= kTarget)
    return {};
  for (onnx::NodeProto &node : *graph().mutable_node()) {
    if (hasSubgraph(node))
      return unsupported("node '" + nameOf(node) + "' (" + node.op_type() +
                         ") has a subgraph of opset " + std::to_string(from) +
                         "; export the model in opset " + std::to_string(kTarget));
    if (!isStandard(node))
      continue;
    if (Status status = rewrite(*this, node, from); !status.ok())
      return status;
  }
  for (onnx::OperatorSetIdProto &set : *proto_.mutable_opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      set.set_version(kTarget);
  constexpr int64_t kFormat = 10; // of the file: the first with types of 4 bits
  proto_.set_ir_version(std::max<int64_t>(proto_.ir_version(), kFormat));
  index();
  return {};
}

} // namespace tensmith::quantize
