// Changes to a model's graphs: their nodes, edges, inputs, outputs and nesting; see OnnxMutator.h.
#include "tests/fuzz/OnnxMutator.h"

#include <string>
#include <vector>

extern "C" const unsigned char tensmithOnnxSchemas[];
extern "C" const unsigned char tensmithOnnxSchemasEnd[];

namespace tensmith::fuzz {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

/// What there is to change, found anew for each change.
struct Parts {
  std::vector<GraphProto *> graphs;
  std::vector<Nodes *> bodies; // of graphs and functions
  std::vector<NodeProto *> nodes;
  std::vector<onnx::TensorProto *> tensors;
  std::vector<onnx::TypeProto *> types;
  std::vector<AttributeProto *> attributes;
  std::vector<std::string> names;

  explicit Parts(onnx::ModelProto &model) {
    add(*model.mutable_graph());
    for (onnx::FunctionProto &function : *model.mutable_functions()) {
      names.insert(names.end(), function.input().begin(), function.input().end());
      add(*function.mutable_node());
    }
  }

private:
  void add(GraphProto &graph) {
    graphs.push_back(&graph);
    for (auto *infos : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
      for (onnx::ValueInfoProto &info : *infos) {
        types.push_back(info.mutable_type());
        names.push_back(info.name());
      }
    for (onnx::TensorProto &tensor : *graph.mutable_initializer()) {
      tensors.push_back(&tensor);
      names.push_back(tensor.name());
    }
    add(*graph.mutable_node());
  }

  void add(Nodes &body) {
    bodies.push_back(&body);
    for (NodeProto &node : body) {
      nodes.push_back(&node);
      names.insert(names.end(), node.output().begin(), node.output().end());
      for (AttributeProto &attribute : *node.mutable_attribute()) {
        attributes.push_back(&attribute);
        if (attribute.has_t())
          tensors.push_back(attribute.mutable_t());
        if (attribute.has_g())
          add(*attribute.mutable_g());
        for (GraphProto &graph : *attribute.mutable_graphs())
          add(graph);
      }
    }
  }
};

std::string freshName(Draw &draw) { return "v" + std::to_string(draw.below(1'000'000)); }

std::string anyName(const Parts &parts, Draw &draw) {
  if (parts.names.empty() || draw.oneIn(40))
    return freshName(draw);
  return draw.oneIn(20) ? std::string() : draw.among(parts.names);
}

void changeOperator(NodeProto &node, Draw &draw) {
  const onnx::FunctionProto &schema = draw.among(schemas().functions());
  node.set_op_type(schema.name());
  node.set_domain(schema.domain());
}

void changeEdge(NodeProto &node, const Parts &parts, Draw &draw) {
  switch (draw.below(6)) {
  case 0:
    node.add_input(anyName(parts, draw));
    return;
  case 1:
    if (node.input_size())
      node.mutable_input()->RemoveLast();
    return;
  case 2:
    node.add_output(freshName(draw));
    return;
  case 3:
    if (node.output_size())
      *node.mutable_output(int(draw.below(node.output_size()))) = anyName(parts, draw);
    return;
  default:
    if (node.input_size())
      *node.mutable_input(int(draw.below(node.input_size()))) = anyName(parts, draw);
  }
}

/// The node at the end, after a copy of itself, or of another operator on what it took and gave.
void addNode(Nodes &body, const Parts &parts, Draw &draw) {
  NodeProto added;
  if (body.size() && draw.oneIn(2))
    added = draw.among(body);
  else
    changeOperator(added, draw);
  while (added.input_size() < int(draw.below(4)))
    added.add_input(anyName(parts, draw));
  if (!added.output_size())
    added.add_output();
  for (std::string &output : *added.mutable_output())
    output = freshName(draw);
  *body.Add() = std::move(added);
}

void changeBody(Nodes &body, const Parts &parts, Draw &draw) {
  int size = body.size();
  if (!size || draw.oneIn(2))
    return addNode(body, parts, draw);
  if (draw.oneIn(2))
    return body.DeleteSubrange(int(draw.below(uint64_t(size))), 1);
  body.SwapElements(int(draw.below(uint64_t(size))), int(draw.below(uint64_t(size))));
}

void changeOutputs(GraphProto &graph, const Parts &parts, Draw &draw) {
  if (graph.output_size() && draw.oneIn(4))
    return graph.mutable_output()->RemoveLast();
  onnx::ValueInfoProto &added = *graph.add_output();
  added.set_name(anyName(parts, draw));
  if (draw.oneIn(2))
    mutateType(*added.mutable_type(), draw);
}

void setGraph(NodeProto &node, const char *name, GraphProto graph) {
  AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::GRAPH);
  *attribute.mutable_g() = std::move(graph);
}

GraphProto bodyOf(const NodeProto &node, bool loop) {
  GraphProto graph;
  graph.set_name("body");
  if (loop)
    for (const char *name : {"iteration", "condition"})
      graph.add_input()->set_name(name);
  *graph.add_node() = node;
  if (loop)
    graph.add_output()->set_name("condition");
  for (const std::string &output : node.output())
    graph.add_output()->set_name(output);
  return graph;
}

/// The node in the branches of an If, or in the body of a Loop that stacks what it gives.
void nest(NodeProto &node, const Parts &parts, Draw &draw) {
  bool loop = draw.oneIn(2);
  NodeProto outer;
  outer.set_op_type(loop ? "Loop" : "If");
  outer.set_name(node.name());
  *outer.mutable_output() = node.output();
  outer.add_input(anyName(parts, draw));
  if (loop)
    outer.add_input(draw.oneIn(2) ? anyName(parts, draw) : "");
  NodeProto inner = node;
  for (std::string &output : *inner.mutable_output())
    output = freshName(draw);
  setGraph(outer, loop ? "body" : "then_branch", bodyOf(inner, loop));
  if (!loop)
    setGraph(outer, "else_branch", bodyOf(inner, loop));
  node = std::move(outer);
}

/// An initialiser becomes an input of unknown contents, or the other way round.
void exchangeInput(GraphProto &graph, Draw &draw) {
  if (graph.initializer_size() && draw.oneIn(2)) {
    int index = int(draw.below(uint64_t(graph.initializer_size())));
    const onnx::TensorProto &tensor = graph.initializer(index);
    onnx::ValueInfoProto &input = *graph.add_input();
    input.set_name(tensor.name());
    auto &type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    for (int64_t dim : tensor.dims())
      type.mutable_shape()->add_dim()->set_dim_value(dim);
    return graph.mutable_initializer()->DeleteSubrange(index, 1);
  }
  if (!graph.input_size())
    return;
  const onnx::ValueInfoProto &input = draw.among(*graph.mutable_input());
  onnx::TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(input.name());
  tensor.set_data_type(input.type().tensor_type().elem_type());
  int64_t elements = 1;
  for (const auto &dim : input.type().tensor_type().shape().dim()) {
    tensor.add_dims(dim.has_dim_value() ? dim.dim_value() : 2);
    elements =
        elements * std::clamp<int64_t>(tensor.dims().Get(tensor.dims_size() - 1), 0, 64) % 4096;
  }
  tensor.set_raw_data(
      std::string(size_t(elements * int64_t(1 << draw.below(4))), char(draw.below(3))));
}

void changeModel(onnx::ModelProto &model, const Parts &parts, Draw &draw) {
  if (model.opset_import_size() && draw.oneIn(2))
    return draw.among(*model.mutable_opset_import()).set_version(int64_t(draw.below(27)));
  if (draw.oneIn(2) || parts.nodes.empty())
    return model.mutable_opset_import()->Add()->set_version(draw.integer());
  // A function of the node, which is then called.
  NodeProto &node = *draw.among(parts.nodes);
  onnx::FunctionProto &function = *model.add_functions();
  function.set_name(draw.oneIn(4) ? node.op_type() : freshName(draw));
  function.set_domain("own");
  *function.mutable_input() = node.input();
  *function.mutable_output() = node.output();
  *function.mutable_opset_import() = model.opset_import();
  *function.add_node() = node;
  node.set_op_type(function.name());
  node.set_domain("own");
}

} // namespace

const onnx::ModelProto &schemas() {
  static const onnx::ModelProto file = [] {
    onnx::ModelProto parsed;
    parsed.ParseFromArray(tensmithOnnxSchemas, int(tensmithOnnxSchemasEnd - tensmithOnnxSchemas));
    return parsed;
  }();
  return file;
}

void mutate(onnx::ModelProto &model, Draw &draw) {
  Parts parts(model);
  GraphProto &graph = *draw.among(parts.graphs);
  NodeProto *node = parts.nodes.empty() ? nullptr : draw.among(parts.nodes);
  switch (draw.below(24)) {
  case 0:
  case 1:
  case 2:
  case 3:
    return parts.tensors.empty() ? exchangeInput(graph, draw)
                                 : mutateTensor(*draw.among(parts.tensors), draw);
  case 4:
  case 5:
  case 6:
  case 7:
    return parts.types.empty() ? void() : mutateType(*draw.among(parts.types), draw);
  case 8:
  case 9:
  case 10:
  case 11:
    if (!parts.attributes.empty())
      return mutateAttribute(*draw.among(parts.attributes), draw);
    [[fallthrough]];
  case 12:
    return node ? addAttribute(*node, draw) : void();
  case 13:
  case 14:
    return node ? changeOperator(*node, draw) : void();
  case 15:
  case 16:
  case 17:
    return node ? changeEdge(*node, parts, draw) : void();
  case 18:
    return changeBody(*draw.among(parts.bodies), parts, draw);
  case 19:
    return changeOutputs(graph, parts, draw);
  case 20:
    return exchangeInput(graph, draw);
  case 21:
    return node && draw.oneIn(2) ? nest(*node, parts, draw) : changeModel(model, parts, draw);
  case 22:
    if (node && node->attribute_size())
      node->mutable_attribute()->DeleteSubrange(int(draw.below(node->attribute_size())), 1);
    return;
  default:
    if (node)
      node->mutable_output()->Clear(), node->add_output(anyName(parts, draw));
  }
}

void graft(onnx::ModelProto &model, const onnx::ModelProto &other, Draw &draw) {
  onnx::ModelProto source = other;
  Parts from(source), to(model);
  GraphProto &graph = *model.mutable_graph();
  if (draw.oneIn(3) && !from.tensors.empty() && !to.tensors.empty()) {
    onnx::TensorProto &tensor = *draw.among(to.tensors);
    std::string name = tensor.name();
    tensor = *draw.among(from.tensors);
    return tensor.set_name(name);
  }
  if (draw.oneIn(3) && !from.types.empty() && !to.types.empty()) {
    *draw.among(to.types) = *draw.among(from.types);
    return;
  }
  // The other graph after this one, some of its inputs taken from what this one has.
  for (NodeProto &node : *source.mutable_graph()->mutable_node()) {
    for (std::string &input : *node.mutable_input())
      if (!to.names.empty() && draw.oneIn(3))
        input = draw.among(to.names);
    *graph.add_node() = node;
  }
  graph.mutable_initializer()->MergeFrom(source.graph().initializer());
  graph.mutable_input()->MergeFrom(source.graph().input());
  graph.mutable_output()->MergeFrom(source.graph().output());
  model.mutable_functions()->MergeFrom(source.functions());
}

} // namespace tensmith::fuzz
