// Imports the recurrent layers RNN, GRU and LSTM with the defaults of their attributes.
#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {
namespace {

/// The attributes that all have. Each direction has the given activations unless the node names its
/// own.
SmallVector<NamedAttribute> layerAttributes(NodeImport &n, ArrayRef<StringRef> activations) {
  std::string direction = n.stringAttr("direction", "forward");
  if (direction == "foward") // the default in the first schema of GRU
    direction = "forward";
  SmallVector<NamedAttribute> result{n.text("direction", direction),
                                     n.boolean("batch_first", n.intAttr("layout"))};
  size_t needed = activations.size() * (direction == "bidirectional" ? 2 : 1);
  SmallVector<mlir::Attribute> names;
  if (auto *given = n.attribute("activations", onnx::AttributeProto::STRINGS))
    for (const std::string &name : given->strings())
      names.push_back(n.builder.getStringAttr(name));
  while (names.size() < needed)
    names.push_back(n.builder.getStringAttr(activations[names.size() % activations.size()]));
  names.truncate(needed); // RNN's default has names for both directions
  result.push_back(n.builder.getNamedAttr("activations", n.builder.getArrayAttr(names)));
  for (const char *name : {"activation_alpha", "activation_beta"})
    if (n.hasAttribute(name))
      result.push_back(
          n.builder.getNamedAttr(name, n.builder.getDenseF64ArrayAttr(n.floatsAttr(name))));
  if (n.hasAttribute("clip"))
    result.push_back(n.real("clip", n.floatAttr("clip")));
  return result;
}

LogicalResult layer(NodeImport &n, StringRef name, unsigned operands,
                    ArrayRef<StringRef> activations, ArrayRef<NamedAttribute> own) {
  if (failed(n.needRank(0)) || failed(n.needRank(1)) || failed(n.needRank(2)))
    return failure();
  auto attributes = layerAttributes(n, activations);
  attributes.append(own.begin(), own.end());
  int64_t hidden = n.intAttr("hidden_size");
  if (!n.hasAttribute("hidden_size")) {
    auto known = n.rank(n.input(2)) == 3 ? NodeImport::known(n.dims(n.input(2))[2]) : std::nullopt;
    if (!known)
      return n.error("has no hidden_size");
    hidden = *known;
  }
  attributes.push_back(n.integer("hidden_size", hidden));
  SmallVector<Value> values;
  for (unsigned i = 0; i < operands; ++i)
    values.push_back(n.maybe(i));
  return n.give(n.graph.create(name, values, attributes));
}

LogicalResult rnn(NodeImport &n) { return layer(n, "graph.rnn", 6, {"Tanh"}, {}); }

LogicalResult gru(NodeImport &n) {
  return layer(n, "graph.gru", 6, {"Sigmoid", "Tanh"},
               {n.boolean("linear_before_reset", n.intAttr("linear_before_reset"))});
}

LogicalResult lstm(NodeImport &n) {
  return layer(n, "graph.lstm", 8, {"Sigmoid", "Tanh", "Tanh"},
               {n.boolean("input_forget", n.intAttr("input_forget"))});
}

constexpr Operator kOperators[] = {{"RNN", rnn}, {"GRU", gru}, {"LSTM", lstm}};

} // namespace

std::span<const Operator> recurrentOperators() { return kOperators; }

} // namespace tensmith::onnx_import
