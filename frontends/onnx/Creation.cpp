// Constants, ranges, random numbers.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/OperatorName.h"

using namespace tensmith::graph;

namespace tensmith::onnx_import {
namespace {

LogicalResult give(NodeImport &n, const Result<HostTensor> &tensor) {
  if (!tensor.ok())
    return n.error("the constant " + tensor.status().message());
  return n.give({n.constant(*tensor)});
}

LogicalResult constant(NodeImport &n) {
  if (auto *value = n.attribute("value", onnx::AttributeProto::TENSOR))
    return give(n, readTensor(value->t(), n.importer.tensorSource()));
  if (auto *value = n.attribute("sparse_value", onnx::AttributeProto::SPARSE_TENSOR))
    return give(n, readSparseTensor(value->sparse_tensor(), n.importer.tensorSource()));
  if (auto *value = n.attribute("value_int", onnx::AttributeProto::INT))
    return n.give({n.integerScalar(value->i())});
  if (n.hasAttribute("value_ints"))
    return n.give({n.vector(n.intsAttr("value_ints"))});
  if (auto *value = n.attribute("value_string", onnx::AttributeProto::STRING))
    return give(n, HostTensor::ofStrings({}, {value->s()}));
  if (auto *value = n.attribute("value_strings", onnx::AttributeProto::STRINGS))
    return give(n, HostTensor::ofStrings({value->strings_size()},
                                         {value->strings().begin(), value->strings().end()}));
  if (auto *value = n.attribute("value_float", onnx::AttributeProto::FLOAT)) {
    float number = value->f();
    return give(n, HostTensor::of<float>(DataType::F32, {}, {&number, 1}));
  }
  if (auto *value = n.attribute("value_floats", onnx::AttributeProto::FLOATS)) {
    std::vector<float> numbers(value->floats().begin(), value->floats().end());
    return give(n, HostTensor::of<float>(DataType::F32, {int64_t(numbers.size())}, numbers));
  }
  return n.error("has no value");
}

LogicalResult constantOfShape(NodeImport &n) {
  HostTensor value(DataType::F32, {});
  if (auto *given = n.attribute("value", onnx::AttributeProto::TENSOR)) {
    auto tensor = readTensor(given->t(), n.importer.tensorSource());
    if (!tensor.ok() || tensor->size() != 1)
      return n.error("the value is no tensor of one element");
    value = tensor->reshaped({});
  }
  Value scalar = n.constant(value);
  if (auto target = n.contents(n.input(0)))
    return n.give({n.broadcast(scalar, *target)});
  return n.give({n("graph.dynamic_broadcast", {scalar, n.input(0)})});
}

LogicalResult range(NodeImport &n) {
  return n.give({n("graph.range", {n.input(0), n.input(1), n.input(2)})});
}

LogicalResult eyeLike(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto dims = n.dims(n.input(0));
  if (dims.size() != 2)
    return n.error("operand 0 has rank " + llvm::Twine(dims.size()) + ", not 2");
  Type to = n.hasAttribute("dtype") ? n.typeAttr("dtype", 1) : n.element(n.input(0));
  if (!to)
    return failure();
  Value row = n.add(n.iota(dims, 0), double(n.intAttr("k")));
  return n.give({n.cast(n("graph.equal", {row, n.iota(dims, 1)}), to)});
}

/// Of the shape in the attribute, or of the operand's.
FailureOr<Type> randomType(NodeImport &n, bool like) {
  if (like && failed(n.needRank(0)))
    return failure();
  Type element = like && !n.hasAttribute("dtype") ? n.element(n.input(0)) : n.typeAttr("dtype", 1);
  if (!element)
    return failure();
  NodeImport::Dims dims;
  if (like)
    dims = n.dims(n.input(0));
  Ints sizes = n.intsAttr("shape");
  if (!like && !elementCount(sizes))
    return n.error("the shape is negative or too large");
  for (int64_t size : like ? Ints() : sizes)
    dims.push_back(n.size(size));
  return Type(n.graph.shapes.tensorType(element, dims));
}

template <bool like> LogicalResult randomUniform(NodeImport &n) {
  auto type = randomType(n, like);
  return failed(type) ? failure()
                      : n.give(n.graph.createTyped("graph.random_uniform", *type, n.key(),
                                                   {n.real("low", n.floatAttr("low", 0)),
                                                    n.real("high", n.floatAttr("high", 1)),
                                                    n.integer("seed", n.seed())}));
}

template <bool like> LogicalResult randomNormal(NodeImport &n) {
  auto type = randomType(n, like);
  return failed(type) ? failure()
                      : n.give(n.graph.createTyped("graph.random_normal", *type, n.key(),
                                                   {n.real("mean", n.floatAttr("mean", 0)),
                                                    n.real("deviation", n.floatAttr("scale", 1)),
                                                    n.integer("seed", n.seed())}));
}

LogicalResult bernoulli(NodeImport &n) {
  if (!n.has(0))
    return n.error("operand 0 is missing");
  Type to = n.hasAttribute("dtype") ? n.typeAttr("dtype", 1) : n.element(n.input(0));
  return to ? n.give({n("graph.bernoulli", {n.input(0), n.key()},
                        {n.type("to", to), n.integer("seed", n.seed())})})
            : failure();
}

LogicalResult multinomial(NodeImport &n) {
  Type to = n.typeAttr("dtype", 6);
  return to ? n.give({n("graph.multinomial", {n.input(0), n.key()},
                        {n.type("to", to), n.integer("sample_size", n.intAttr("sample_size", 1)),
                         n.integer("seed", n.seed())})})
            : failure();
}

/// In inference the operand itself, and a mask of ones.
LogicalResult dropout(NodeImport &n) {
  Value x = n.input(0);
  if (!x)
    return n.error("operand 0 is missing");
  auto training = n.constants(n.input(2));
  ModelForm form = n.importer.options.form;
  bool inference = form == ModelForm::Evaluation || n.opset < 12 || !n.has(2) ||
                   (training && training->size() == 1 && !(*training)[0]);
  auto dropped = [&](Value ratio, Value mode, Value key) {
    int64_t seed = n.hasAttribute("seed") ? n.intAttr("seed") : n.seed();
    return n.give(n.graph.create("graph.dropout", {x, ratio, mode, key}, n.integer("seed", seed)));
  };
  if (form == ModelForm::Training) { // which draws by its steps
    Value ratio = n.has(1)       ? n.input(1)
                  : n.opset < 12 ? n.scalar(x, n.floatAttr("ratio", 0.5))
                                 : n.graph.none();
    return dropped(ratio, n.graph.scalar(n.builder.getI1Type(), 1), n.none());
  }
  if (!inference)
    return dropped(n.maybe(1), n.input(2), n.key());
  if (!n.wants(1))
    return n.give({x});
  Type maskType = n.opset < 10 ? n.element(x) : n.builder.getI1Type(); // as x, then boolean
  if (n.isRanked(x))
    return n.give({x, n.filled(maskType, n.dims(x), 1)});
  return n.give(
      {x, n("graph.dynamic_broadcast", {n.graph.scalar(maskType, 1), n("graph.shape", {x})})});
}

constexpr Operator kOperators[] = {
    {"Constant", constant},
    {"ConstantOfShape", constantOfShape},
    {"Range", range},
    {"EyeLike", eyeLike},
    {"RandomUniform", randomUniform<false>},
    {"RandomUniformLike", randomUniform<true>},
    {"RandomNormal", randomNormal<false>},
    {"RandomNormalLike", randomNormal<true>},
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial},
    {"Dropout", dropout},
};

} // namespace

std::span<const Operator> creationOperators() { return kOperators; }

} // namespace tensmith::onnx_import
