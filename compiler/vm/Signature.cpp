// Types of the graph as ports; see Signature.h.
#include "compiler/vm/Signature.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/TypeText.h"
#include "compiler/program/Program.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

SignaturePort port(StringAttr name, Type type, std::string fallback) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  SignaturePort result{name && !name.empty() ? name.str() : std::move(fallback),
                       kindOf(type),
                       elementOf(type),
                       bool(ranked),
                       {},
                       {}};
  if (auto object = dyn_cast<program::ObjectType>(type))
    result.object = object.getText().str();
  for (int64_t dim = 0; ranked && dim < ranked.getRank(); ++dim)
    result.dims.push_back(graph::dimText(ranked, dim));
  return result;
}

} // namespace

plan::ValueKind kindOf(Type type) {
  if (isa<graph::SequenceType>(type))
    return plan::ValueKind::Sequence;
  if (isa<graph::OptionalType>(type))
    return plan::ValueKind::Optional;
  if (isa<graph::MapType>(type))
    return plan::ValueKind::Map;
  if (isa<program::ObjectType>(type))
    return plan::ValueKind::Object;
  return isa<NoneType>(type) ? plan::ValueKind::None : plan::ValueKind::Tensor;
}

DataType elementOf(Type type) {
  if (auto sequence = dyn_cast<graph::SequenceType>(type))
    type = sequence.getElement();
  if (auto optional = dyn_cast<graph::OptionalType>(type))
    type = optional.getElement();
  if (auto map = dyn_cast<graph::MapType>(type))
    return graph::dataType(map.getValue());
  return isa<TensorType>(type) ? graph::dataType(getElementTypeOrSelf(type)) : DataType::Undefined;
}

std::vector<SignaturePort> inputsOf(func::FuncOp function) {
  std::vector<SignaturePort> result;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
    result.push_back(port(function.getArgAttrOfType<StringAttr>(unsigned(index), "graph.name"),
                          type, "input" + std::to_string(index)));
  return result;
}

std::vector<SignaturePort> outputsOf(func::FuncOp function) {
  std::vector<SignaturePort> result;
  for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
    result.push_back(port(function.getResultAttrOfType<StringAttr>(unsigned(index), "graph.name"),
                          type, "output" + std::to_string(index)));
  return result;
}

} // namespace tensmith::vm
