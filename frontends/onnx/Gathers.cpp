// Reading and writing at computed indices; choosing by value.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/OperatorName.h"

namespace tensmith::onnx_import {
namespace {

template <OperatorName name> LogicalResult gather(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis"), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  return n.give({n(name, {n.input(0), n.input(1)}, {n.integer("axis", *axis)})});
}

LogicalResult gatherND(NodeImport &n) {
  return n.give({n("graph.gather_nd", {n.input(0), n.input(1)},
                   {n.integer("batch_dims", n.intAttr("batch_dims"))})});
}

LogicalResult scatterElements(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis"), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  return n.give(
      {n("graph.scatter_elements", {n.input(0), n.input(1), n.input(2)},
         {n.integer("axis", *axis), n.text("reduction", n.stringAttr("reduction", "none"))})});
}

LogicalResult scatterND(NodeImport &n) {
  return n.give({n("graph.scatter_nd", {n.input(0), n.input(1), n.input(2)},
                   {n.text("reduction", n.stringAttr("reduction", "none"))})});
}

LogicalResult tensorScatter(NodeImport &n) {
  return n.give({n(
      "graph.tensor_scatter", {n.input(0), n.input(1), n.maybe(2)},
      {n.integer("axis", n.intAttr("axis", -2)), n.text("mode", n.stringAttr("mode", "linear"))})});
}

LogicalResult oneHot(NodeImport &n) {
  return n.give({n("graph.one_hot", {n.input(0), n.input(1), n.input(2)},
                   {n.integer("axis", n.intAttr("axis", -1))})});
}

LogicalResult nonZero(NodeImport &n) { return n.give({n.unary("graph.nonzero", n.input(0))}); }

LogicalResult compress(NodeImport &n) {
  SmallVector<NamedAttribute> attributes;
  if (n.hasAttribute("axis"))
    attributes.push_back(n.integer("axis", n.intAttr("axis")));
  return n.give({n("graph.compress", {n.input(0), n.input(1)}, attributes)});
}

LogicalResult topK(NodeImport &n) {
  Value k = n.opset < 10 ? n.vector({n.intAttr("k")}) : n.input(1);
  if (!k || failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(n.input(0)));
  if (failed(axis))
    return failure();
  return n.give(
      n.graph.create("graph.topk", {n.input(0), k},
                     {n.integer("axis", *axis), n.boolean("largest", n.intAttr("largest", 1)),
                      n.boolean("sorted", n.intAttr("sorted", 1))}));
}

LogicalResult unique(NodeImport &n) {
  SmallVector<NamedAttribute> attributes{n.boolean("sorted", n.intAttr("sorted", 1))};
  if (n.hasAttribute("axis"))
    attributes.push_back(n.integer("axis", n.intAttr("axis")));
  return n.give(n.graph.create("graph.unique", n.input(0), attributes));
}

LogicalResult nonMaxSuppression(NodeImport &n) {
  return n.give(
      {n("graph.non_max_suppression", {n.input(0), n.input(1), n.maybe(2), n.maybe(3), n.maybe(4)},
         {n.boolean("center_point_box", n.intAttr("center_point_box"))})});
}

constexpr Operator kOperators[] = {
    {"Gather", gather<"graph.gather">},
    {"GatherElements", gather<"graph.gather_elements">},
    {"GatherND", gatherND},
    {"Scatter", scatterElements},
    {"ScatterElements", scatterElements},
    {"ScatterND", scatterND},
    {"TensorScatter", tensorScatter},
    {"OneHot", oneHot},
    {"NonZero", nonZero},
    {"Compress", compress},
    {"TopK", topK},
    {"Unique", unique},
    {"NonMaxSuppression", nonMaxSuppression},
};

} // namespace

std::span<const Operator> gatherOperators() { return kOperators; }

} // namespace tensmith::onnx_import
