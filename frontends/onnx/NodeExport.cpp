// Nodes and their operands; see NodeExport.h.
#include "frontends/onnx/NodeExport.h"

#include "compiler/graph/Constants.h"

using namespace mlir;

namespace tensmith::onnx_export {
namespace {

template <typename... Cases> struct Visitor : Cases... {
  using Cases::operator()...;
};

void setAttribute(onnx::AttributeProto &proto, const Attribute &value) {
  using Proto = onnx::AttributeProto;
  Visitor set{[&](int64_t number) { proto.set_type(Proto::INT), proto.set_i(number); },
              [&](double number) { proto.set_type(Proto::FLOAT), proto.set_f(float(number)); },
              [&](const std::string &text) { proto.set_type(Proto::STRING), proto.set_s(text); },
              [&](const std::vector<int64_t> &list) {
                proto.set_type(Proto::INTS);
                proto.mutable_ints()->Assign(list.begin(), list.end());
              },
              [&](const std::vector<double> &list) {
                proto.set_type(Proto::FLOATS);
                proto.mutable_floats()->Assign(list.begin(), list.end());
              },
              [&](const std::vector<std::string> &list) {
                proto.set_type(Proto::STRINGS);
                proto.mutable_strings()->Assign(list.begin(), list.end());
              },
              [&](const HostTensor &tensor) {
                proto.set_type(Proto::TENSOR);
                *proto.mutable_t() = tensorProto(tensor, "");
              }};
  std::visit(set, value);
}

} // namespace

NodeExport::NodeExport(Exporter &exporter, Operation *op)
    : exporter(exporter), op(op), attributes(graph::attributes(op)) {}

std::string NodeExport::input(unsigned number) const {
  return number < op->getNumOperands() ? exporter.nameOf(op->getOperand(number)) : std::string();
}

Names NodeExport::inputs() const {
  Names names;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    names.push_back(input(i));
  return names;
}

Result<Dims> NodeExport::dims(Value value) const {
  if (!isa<RankedTensorType>(value.getType()))
    return error("has an operand whose number of dimensions is known to the run alone");
  return exporter.shapes.dims(value.getType());
}

Status NodeExport::error(const std::string &what) const {
  return unsupported(placeOf(op) + "'" + op->getName().stripDialect().str() + "' " + what);
}

Names NodeExport::nodes(StringRef type, Names inputs, Fields fields, size_t results) const {
  onnx::NodeProto &node = exporter.addNode(type);
  while (!inputs.empty() && inputs.back().empty())
    inputs.pop_back();
  for (std::string &input : inputs)
    node.add_input(std::move(input));
  for (const auto &[name, value] : fields) {
    auto &attribute = *node.add_attribute();
    attribute.set_name(name);
    setAttribute(attribute, value);
  }
  Names names;
  for (size_t i = 0; i < results; ++i) {
    names.push_back(exporter.freshName(op->getName().stripDialect()));
    node.add_output(names.back());
  }
  node.set_name(names[0]);
  return names;
}

std::string NodeExport::node(StringRef type, Names inputs, Fields fields) const {
  return nodes(type, std::move(inputs), std::move(fields), 1)[0];
}

Status NodeExport::giveNode(StringRef type, Names inputs, Fields fields) const {
  size_t wanted = op->getNumResults();
  while (wanted > 1 && op->getResult(unsigned(wanted - 1)).use_empty())
    --wanted;
  return give(nodes(type, std::move(inputs), std::move(fields), wanted));
}

Status NodeExport::give(const Names &names) const {
  for (auto [result, name] : llvm::zip(op->getResults(), names))
    exporter.setName(result, name);
  return {};
}

std::string NodeExport::vector(ArrayRef<int64_t> values) const {
  return exporter.addInitialiser("constant",
                                 HostTensor::of<int64_t>(DataType::I64, {int64_t(values.size())},
                                                         {values.data(), values.size()}));
}

std::string NodeExport::integer(int64_t value) const {
  return exporter.addInitialiser("constant",
                                 HostTensor::of<int64_t>(DataType::I64, {}, {&value, 1}));
}

std::string NodeExport::scalar(Type element, double value) const {
  HostTensor tensor(graph::dataType(element), {});
  tensor.setDouble(0, value);
  return exporter.addInitialiser("constant", tensor);
}

Result<std::string> NodeExport::sizes(ArrayRef<AffineExpr> sizes) const {
  std::vector<int64_t> known;
  for (AffineExpr size : sizes)
    if (auto constant = dyn_cast<AffineConstantExpr>(size))
      known.push_back(constant.getValue());
  if (known.size() == sizes.size())
    return vector(known);
  Names parts;
  for (AffineExpr size : sizes) {
    auto part = exporter.sizeOf(size);
    if (!part.ok())
      return error("makes a tensor of a size that is known to the run alone");
    parts.push_back(*part);
  }
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", int64_t(0)}});
}

} // namespace tensmith::onnx_export
