// A node's attributes, operands and results for its import rule; see NodeImport.h.
#include "frontends/onnx/NodeImport.h"

#include "compiler/graph/Checks.h"
#include "frontends/onnx/Schemas.h"

#include <bit>
#include <cmath>

using namespace mlir;

namespace tensmith::onnx_import {

LogicalResult NodeImport::give(ArrayRef<Value> values) {
  if (llvm::is_contained(values, Value()))
    return failure();
  results.assign(values.begin(), values.end());
  nameSizes();
  return success();
}

LogicalResult NodeImport::give(Operation *op) {
  if (!op)
    return failure();
  results.assign(op->result_begin(), op->result_end());
  nameSizes();
  return success();
}

void NodeImport::nameSizes() {
  for (Value result : results)
    if (result.getDefiningOp())
      graph::nameSizes(result, graph.shapes);
}

LogicalResult NodeImport::error(const Twine &message) const {
  return emitError(graph.location, message);
}

const onnx::AttributeProto *NodeImport::attribute(StringRef name) const {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  if (schema_)
    for (const auto &attribute : schema_->attribute_proto())
      if (attribute.name() == name)
        return &attribute;
  return nullptr;
}

/// The kind that an attribute says it has or, in files from before IR version 3, which don't say,
/// that of the value that it has. An empty list or a zero that was left out has none.
static onnx::AttributeProto::AttributeType kindOf(const onnx::AttributeProto &attribute) {
  using Proto = onnx::AttributeProto;
  if (attribute.type() != Proto::UNDEFINED)
    return attribute.type();
  return attribute.has_f()          ? Proto::FLOAT
         : attribute.has_i()        ? Proto::INT
         : attribute.has_s()        ? Proto::STRING
         : attribute.has_t()        ? Proto::TENSOR
         : attribute.has_g()        ? Proto::GRAPH
         : attribute.floats_size()  ? Proto::FLOATS
         : attribute.ints_size()    ? Proto::INTS
         : attribute.strings_size() ? Proto::STRINGS
                                    : Proto::UNDEFINED;
}

const onnx::AttributeProto *
NodeImport::attribute(StringRef name, onnx::AttributeProto::AttributeType expected) const {
  auto *found = attribute(name);
  if (!found)
    return nullptr;
  auto kind = kindOf(*found);
  if (kind == expected || kind == onnx::AttributeProto::UNDEFINED)
    return found;
  hasFailed_ = true;
  (void)error("attribute '" + name + "' is of kind " +
              onnx::AttributeProto::AttributeType_Name(kind) + ", not " +
              onnx::AttributeProto::AttributeType_Name(expected));
  return nullptr;
}

int64_t NodeImport::intAttr(StringRef name, int64_t fallback) const {
  auto *found = attribute(name, onnx::AttributeProto::INT);
  return found ? found->i() : fallback;
}

double NodeImport::floatAttr(StringRef name, double fallback) const {
  auto *found = attribute(name, onnx::AttributeProto::FLOAT);
  return found ? double(found->f()) : fallback;
}

std::string NodeImport::stringAttr(StringRef name, StringRef fallback) const {
  auto *found = attribute(name, onnx::AttributeProto::STRING);
  return found ? found->s() : fallback.str();
}

Ints NodeImport::intsAttr(StringRef name, ArrayRef<int64_t> fallback) const {
  auto *found = attribute(name, onnx::AttributeProto::INTS);
  return found ? Ints(found->ints().begin(), found->ints().end()) : Ints(fallback);
}

SmallVector<double> NodeImport::floatsAttr(StringRef name) const {
  auto *found = attribute(name, onnx::AttributeProto::FLOATS);
  return found ? SmallVector<double>(found->floats().begin(), found->floats().end())
               : SmallVector<double>();
}

std::vector<std::string> NodeImport::stringsAttr(StringRef name) const {
  auto *found = attribute(name, onnx::AttributeProto::STRINGS);
  return found ? std::vector<std::string>(found->strings().begin(), found->strings().end())
               : std::vector<std::string>();
}

Type NodeImport::typeAttr(StringRef name, int64_t fallback) {
  int64_t number = intAttr(name, fallback);
  auto type = dataTypeFromOnnx(number);
  if (!type || *type == DataType::Undefined) {
    (void)error("attribute '" + name + "' is " + Twine(number) + ", which is no element type");
    return {};
  }
  return graph::elementType(builder.getContext(), *type);
}

std::optional<Ints> NodeImport::constants(Value value) const {
  if (!value)
    return std::nullopt;
  if (auto known = graph.shapes.constants(value))
    return known;
  auto tensor = importer.evaluated(value);
  if (!tensor || tensor->shape().size() > 1 ||
      !(isInteger(tensor->type()) || tensor->type() == DataType::Bool))
    return std::nullopt;
  Ints elements;
  for (int64_t i = 0; i < tensor->size(); ++i)
    elements.push_back(tensor->getInt(i));
  return elements;
}

std::optional<graph::Contents> NodeImport::contents(Value value) const {
  if (!value)
    return std::nullopt;
  if (auto known = graph.shapes.contents(value))
    return known;
  auto elements = constants(value);
  if (!elements)
    return std::nullopt;
  graph::Contents contents;
  for (int64_t element : *elements)
    contents.push_back(graph.shapes.constant(element));
  return contents;
}

constexpr int64_t kSomeRank = 8; // of what has none that is known

bool NodeImport::checkRank(Value x) const {
  if (isRanked(x))
    return true;
  lackingRank_ = lackingRank_ ? lackingRank_ : x;
  if (!std::exchange(hasFailed_, true))
    (void)error("a tensor has no known rank, which this operator needs; give the model's inputs "
                "shapes");
  return false;
}

NodeImport::Dims NodeImport::dims(Value x) const {
  return checkRank(x) ? GraphCode::dims(x) : Dims(kSomeRank, graph.shapes.freshSymbol("unknown"));
}

int64_t NodeImport::rank(Value x) const { return checkRank(x) ? GraphCode::rank(x) : kSomeRank; }

LogicalResult NodeImport::needRank(size_t number) const {
  if (!has(number))
    return error("operand " + Twine(number) + " is missing");
  if (!isRanked(input(number))) {
    lackingRank_ = lackingRank_ ? lackingRank_ : input(number);
    return error("operand " + Twine(number) +
                 " has no known rank, which this operator needs; give the model's inputs shapes");
  }
  return success();
}

Value NodeImport::ranked(Value x, int64_t rank) const {
  if (!x || isRanked(x))
    return x;
  Ints dims;
  for (int64_t dim = 0; dim < rank; ++dim)
    dims.push_back(dim);
  Value shape = op("graph.gather", {op("graph.shape", {x}), vector(dims)}, integer("axis", 0));
  return op("graph.dynamic_reshape", {x, shape}, boolean("allowzero", true));
}

FailureOr<int64_t> NodeImport::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    return error("axis " + Twine(axis) + " is not a dimension of an operand of rank " +
                 Twine(rank));
  return axis < 0 ? axis + rank : axis;
}

FailureOr<Ints> NodeImport::axes(ArrayRef<int64_t> axes, int64_t rank) const {
  Ints result;
  for (int64_t number : axes) {
    auto dim = axis(number, rank);
    if (failed(dim))
      return failure();
    result.push_back(*dim);
  }
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    return error("an axis is given twice");
  return result;
}

Value NodeImport::vector(ArrayRef<int64_t> values) const {
  return constant(HostTensor::of<int64_t>(DataType::I64, {int64_t(values.size())},
                                          {values.data(), values.size()}));
}

Value NodeImport::integerScalar(int64_t value) const {
  return constant(HostTensor::of<int64_t>(DataType::I64, {}, {&value, 1}));
}

std::optional<double> NodeImport::scalarConstant(Value value) const {
  auto constant = value ? value.getDefiningOp<graph::ConstantOp>() : graph::ConstantOp();
  if (!constant)
    return std::nullopt;
  auto tensor = graph::hostTensor(constant.getValue());
  if (!tensor.ok() || tensor->size() != 1 || tensor->type() == DataType::String)
    return std::nullopt;
  return tensor->getDouble(0);
}

Value NodeImport::inverseRoot(Value like, Value size) const {
  if (auto number = scalarConstant(size))
    return scalar(like, 1 / std::sqrt(*number));
  Value root = unary("graph.sqrt", cast(size, builder.getF64Type()));
  return root ? cast(div(scalar(root, 1), root), element(like)) : root;
}

Value NodeImport::key() const {
  if (hasAttribute("seed"))
    return none();
  constexpr int64_t kMultiplier = 6364136223846793005; // Knuth's, of MMIX
  Value key = op("graph.run_key", {});
  for (Value iteration : importer.iterations)
    key = add(mul(key, integerScalar(kMultiplier)), iteration);
  return key;
}

int64_t NodeImport::seed() {
  if (hasAttribute("seed"))
    return std::bit_cast<int32_t>(float(floatAttr("seed")));
  return ++importer.randomSeeds;
}

} // namespace tensmith::onnx_import
