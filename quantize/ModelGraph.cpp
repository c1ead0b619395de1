// Names and nodes of the main graph; see ModelGraph.h.
#include "quantize/ModelGraph.h"

#include "frontends/onnx/TensorData.h"

#include <limits>

namespace tensmith::quantize {
namespace {

constexpr int64_t kLeastOpset = 13; // the first whose QuantizeLinear has an axis

void noteReads(const onnx::GraphProto &graph, std::set<std::string> &reads);

/// What subgraphs of the node read; names of their own do no harm.
void noteInnerReads(const onnx::NodeProto &node, std::set<std::string> &reads) {
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (attribute.has_g())
      noteReads(attribute.g(), reads);
    for (const onnx::GraphProto &inner : attribute.graphs())
      noteReads(inner, reads);
  }
}

void noteReads(const onnx::GraphProto &graph, std::set<std::string> &reads) {
  for (const onnx::NodeProto &node : graph.node()) {
    reads.insert(node.input().begin(), node.input().end());
    noteInnerReads(node, reads);
  }
  for (const onnx::ValueInfoProto &output : graph.output())
    reads.insert(output.name());
}

void setTensor(onnx::TensorProto &proto, const std::string &name, const HostTensor &value) {
  proto.Clear();
  proto.set_name(name);
  proto.set_data_type(int(value.type()));
  for (int64_t dim : value.shape())
    proto.add_dims(dim);
  proto.set_raw_data(onnx_import::rawData(value));
}

} // namespace

Result<ModelGraph> ModelGraph::parse(const std::string &bytes) {
  ModelGraph model;
  if (!model.proto_.ParseFromString(bytes))
    return Status(StatusCode::InvalidModel, "is no ONNX model");
  if (int64_t opset = model.opset(); opset < kLeastOpset)
    return unsupported("is of opset " + std::to_string(opset) + "; quantisation needs " +
                       std::to_string(kLeastOpset) +
                       " or later: export it anew, or convert it with onnx.version_converter");
  for (const onnx::NodeProto &node : model.graph().node())
    if (node.output_size() == 0)
      return Status(StatusCode::InvalidModel,
                    "node '" + node.name() + "' (" + node.op_type() + ") has no output");
  model.index();
  return model;
}

std::string ModelGraph::bytes() const { return proto_.SerializeAsString(); }

int64_t ModelGraph::opset() const {
  for (const onnx::OperatorSetIdProto &set : proto_.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      return set.version();
  return 0;
}

void ModelGraph::index() {
  constants_.clear();
  producers_.clear();
  readers_.clear();
  elsewhere_.clear();
  inputs_.clear();
  const onnx::GraphProto &graph = proto_.graph();
  for (int i = 0; i < graph.initializer_size(); ++i)
    constants_[graph.initializer(i).name()] = i;
  for (const onnx::ValueInfoProto &input : graph.input())
    if (!constants_.contains(input.name()))
      inputs_.insert(input.name());
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto &node = graph.node(i);
    for (const std::string &input : node.input())
      if (auto &readers = readers_[input]; readers.empty() || readers.back() != i)
        readers.push_back(i);
    for (const std::string &output : node.output())
      producers_[output] = i;
    noteInnerReads(node, elsewhere_);
    names_.insert(node.name());
    names_.insert(node.output().begin(), node.output().end());
  }
  for (const onnx::ValueInfoProto &output : graph.output())
    elsewhere_.insert(output.name());
  for (const auto &[name, unused] : constants_)
    names_.insert(name);
  names_.insert(inputs_.begin(), inputs_.end());
  names_.insert(elsewhere_.begin(), elsewhere_.end());
}

const std::vector<int> &ModelGraph::readers(const std::string &tensor) const {
  static const std::vector<int> kNone;
  auto found = readers_.find(tensor);
  return found == readers_.end() ? kNone : found->second;
}

int ModelGraph::producer(const std::string &tensor) const {
  auto found = producers_.find(tensor);
  return found == producers_.end() ? -1 : found->second;
}

bool ModelGraph::isReadElsewhere(const std::string &tensor) const {
  return elsewhere_.contains(tensor);
}
bool ModelGraph::hasOneReader(const std::string &tensor) const {
  return readers(tensor).size() == 1 && !isReadElsewhere(tensor);
}
bool ModelGraph::isInput(const std::string &tensor) const { return inputs_.contains(tensor); }

std::optional<HostTensor> ModelGraph::constant(const std::string &name) const {
  auto found = constants_.find(name);
  if (found == constants_.end())
    return std::nullopt;
  auto tensor = onnx_import::readTensor(proto_.graph().initializer(found->second), {});
  return tensor.ok() ? std::optional<HostTensor>(*tensor) : std::nullopt;
}

void ModelGraph::setConstant(const std::string &name, const HostTensor &value) {
  setTensor(*graph().mutable_initializer(constants_.at(name)), name, value);
}

std::string ModelGraph::freshName(const std::string &stem) {
  std::string name = stem;
  for (int i = 2; !names_.insert(name).second; ++i)
    name = stem + "_" + std::to_string(i);
  return name;
}

std::string ModelGraph::addConstant(const std::string &stem, const HostTensor &value) {
  std::string name = freshName(stem);
  constants_[name] = proto_.graph().initializer_size();
  setTensor(*graph().add_initializer(), name, value);
  return name;
}

int64_t ModelGraph::constantBytes() const {
  int64_t bytes = 0;
  for (const onnx::TensorProto &tensor : proto_.graph().initializer())
    if (auto type = onnx_import::tensorType(tensor); type.ok())
      if (auto count = elementCount(type->second))
        bytes += onnx_import::rawBytes(type->first, *count);
  return bytes;
}

void ModelGraph::dropUnreadConstants() {
  index();
  onnx::GraphProto kept;
  std::set<std::string> inputs;
  for (const onnx::ValueInfoProto &input : graph().input())
    inputs.insert(input.name()); // a constant that is an input, too, may be given by the caller
  for (onnx::TensorProto &tensor : *graph().mutable_initializer())
    if (!readers(tensor.name()).empty() || isReadElsewhere(tensor.name()) ||
        inputs.contains(tensor.name()))
      kept.add_initializer()->Swap(&tensor);
  graph().mutable_initializer()->Swap(kept.mutable_initializer());
  index();
}

onnx::NodeProto &ModelGraph::insertBefore(int node, const std::string &op, const std::string &stem,
                                          std::vector<std::string> inputs) {
  auto &proto = *inserted_[node].emplace_back(std::make_unique<onnx::NodeProto>());
  proto.set_op_type(op);
  std::string name = freshName(stem);
  proto.set_name(name);
  proto.add_output(name);
  for (std::string &input : inputs)
    proto.add_input(std::move(input));
  return proto;
}

void ModelGraph::insertAll() {
  onnx::GraphProto ordered;
  for (int i = 0; i < graph().node_size(); ++i) {
    for (auto &node : inserted_[i])
      ordered.add_node()->Swap(node.get());
    ordered.add_node()->Swap(graph().mutable_node(i));
  }
  inserted_.clear();
  graph().mutable_node()->Swap(ordered.mutable_node());
  index();
}

void ModelGraph::eraseNodes(const std::set<int> &nodes) {
  onnx::GraphProto kept;
  for (int i = 0; i < graph().node_size(); ++i)
    if (!nodes.contains(i))
      kept.add_node()->Swap(graph().mutable_node(i));
  graph().mutable_node()->Swap(kept.mutable_node());
  index();
}

std::string nameOf(const onnx::NodeProto &node) {
  return !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
}

const onnx::AttributeProto *findAttribute(const onnx::NodeProto &node, const std::string &name) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t integerAttribute(const onnx::NodeProto &node, const std::string &name, int64_t otherwise) {
  const onnx::AttributeProto *attribute = findAttribute(node, name);
  return attribute ? attribute->i() : otherwise;
}

void setAttribute(onnx::NodeProto &node, const std::string &name, int64_t value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void setAttribute(onnx::NodeProto &node, const std::string &name,
                  const std::vector<int64_t> &values) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

bool isStandard(const onnx::NodeProto &node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

} // namespace tensmith::quantize
