// Imports the operators on sequences and optional values, and SequenceMap as a loop.
#include "frontends/onnx/Loops.h"

using namespace tensmith::graph;

namespace tensmith::onnx_import {
namespace {

/// What a sequence of such values has as element type: elements differ in shape.
Type elementOf(Type type) {
  return mlir::isa<mlir::TensorType>(type)
             ? Type(mlir::UnrankedTensorType::get(mlir::getElementTypeOrSelf(type)))
             : type;
}

Value construct(NodeImport &n, ArrayRef<Value> elements, Type element) {
  return n("graph.sequence_construct", elements, n.type("element", element));
}

LogicalResult sequenceConstruct(NodeImport &n) {
  if (n.inputs.empty() || !n.has(0))
    return n.error("has no elements");
  return n.give({construct(n, n.inputs, elementOf(n.input(0).getType()))});
}

LogicalResult sequenceEmpty(NodeImport &n) {
  Type element = n.typeAttr("dtype", 1);
  return element ? n.give({construct(n, {}, mlir::UnrankedTensorType::get(element))}) : failure();
}

LogicalResult sequenceAt(NodeImport &n) {
  return n.give({n("graph.sequence_at", {n.input(0), n.input(1)})});
}
LogicalResult sequenceInsert(NodeImport &n) {
  return n.give({n("graph.sequence_insert", {n.input(0), n.input(1), n.maybe(2)})});
}
LogicalResult sequenceErase(NodeImport &n) {
  return n.give({n("graph.sequence_erase", {n.input(0), n.maybe(1)})});
}
LogicalResult sequenceLength(NodeImport &n) {
  return n.give({n("graph.sequence_length", {n.input(0)})});
}
LogicalResult splitToSequence(NodeImport &n) {
  return n.give(
      {n("graph.split_to_sequence", {n.input(0), n.maybe(1)},
         {n.integer("axis", n.intAttr("axis")), n.boolean("keepdims", n.intAttr("keepdims", 1))})});
}
LogicalResult concatFromSequence(NodeImport &n) {
  return n.give(
      {n("graph.concat_from_sequence", {n.input(0)},
         {n.integer("axis", n.intAttr("axis")), n.boolean("new_axis", n.intAttr("new_axis"))})});
}

LogicalResult optional(NodeImport &n) {
  if (n.has(0))
    return n.give({n("graph.optional", {n.input(0)})});
  auto *type = n.attribute("type", onnx::AttributeProto::TYPE_PROTO);
  if (!type)
    return n.error("has neither a value nor a type");
  auto element = n.importer.typeOf(type->tp(), "type", n.graph.location);
  if (failed(element))
    return failure();
  Type result = mlir::isa<OptionalType>(*element)
                    ? *element
                    : OptionalType::get(n.builder.getContext(), elementOf(*element));
  Value empty = n.builder.create<NoneOp>(n.graph.location, result);
  return n.give({empty});
}

LogicalResult optionalHasElement(NodeImport &n) {
  if (!n.has(0))
    return n.give({n.graph.scalar(n.builder.getI1Type(), 0)});
  return n.give({n("graph.optional_has_element", {n.input(0)})});
}

LogicalResult optionalGetElement(NodeImport &n) {
  return n.give({n("graph.optional_get_element", {n.input(0)})});
}

/// The body applied to the elements of the sequences (tensors are given as they are): a loop that
/// appends to the results' sequences.
LogicalResult sequenceMap(NodeImport &n) {
  auto *attribute = n.attribute("body", onnx::AttributeProto::GRAPH);
  if (!attribute || !attribute->has_g() || !n.has(0))
    return n.error("has no body or no sequence");
  const onnx::GraphProto &body = attribute->g();
  if (size_t(body.input_size()) != n.inputCount())
    return n.error("has a body of " + llvm::Twine(body.input_size()) + " inputs for " +
                   llvm::Twine(n.inputCount()) + " operands");
  SmallVector<Value> initial;
  for (const auto &output : body.output()) {
    auto type = n.importer.typeOf(output.type(), output.name(), n.graph.location);
    if (failed(type))
      return failure();
    initial.push_back(construct(n, {}, elementOf(*type)));
  }
  Value trips = n("graph.sequence_length", {n.input(0)});
  return buildLoop(n, trips, n.none(), initial, 0,
                   [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
                     Scope scope;
                     scope.parent = &n.scope;
                     scope.opsets = n.scope.opsets;
                     scope.prefix = n.scope.prefix + displayName(n.node) + "/";
                     for (int i = 0; i < body.input_size(); ++i) {
                       Value operand = n.input(size_t(i));
                       if (operand && mlir::isa<SequenceType>(operand.getType()))
                         operand = n("graph.sequence_at", {operand, arguments[0]});
                       if (!operand)
                         return failure();
                       scope.values[body.input(i).name()] = operand;
                     }
                     auto values = n.importer.importSubgraph(body, scope, n.graph.location);
                     if (failed(values))
                       return failure();
                     SmallVector<Value> results{n.graph.scalar(n.builder.getI1Type(), 1)};
                     for (auto [i, value] : llvm::enumerate(*values))
                       results.push_back(
                           n("graph.sequence_insert", {arguments[2 + i], value, n.none()}));
                     if (llvm::is_contained(results, Value()))
                       return failure();
                     return results;
                   });
}

constexpr Operator kOperators[] = {
    {"SequenceConstruct", sequenceConstruct},
    {"SequenceEmpty", sequenceEmpty},
    {"SequenceAt", sequenceAt},
    {"SequenceInsert", sequenceInsert},
    {"SequenceErase", sequenceErase},
    {"SequenceLength", sequenceLength},
    {"SequenceMap", sequenceMap},
    {"SplitToSequence", splitToSequence},
    {"ConcatFromSequence", concatFromSequence},
    {"Optional", optional},
    {"OptionalHasElement", optionalHasElement},
    {"OptionalGetElement", optionalGetElement},
};

} // namespace

std::span<const Operator> sequenceOperators() { return kOperators; }

} // namespace tensmith::onnx_import
