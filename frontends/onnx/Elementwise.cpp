// Arithmetic, comparison, logic, conversion.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/OperatorName.h"
#include "frontends/onnx/Widened.h"

using namespace tensmith::graph;

namespace tensmith::onnx_import {
namespace {

/// Before opset 7, `broadcast` and `axis` said where the second operand's dimensions belong.
FailureOr<Value> legacyOperand(NodeImport &n, Value a, Value b) {
  if (n.opset >= 7 || !n.intAttr("broadcast") || !n.hasAttribute("axis") || !n.isRanked(a) ||
      !n.isRanked(b) || n.rank(b) == 0)
    return b;
  auto axis = n.axis(n.intAttr("axis"), n.rank(a));
  if (failed(axis))
    return failure();
  int64_t trailing = n.rank(a) - *axis - n.rank(b);
  auto dims = n.dims(b);
  for (int64_t i = 0; i < trailing; ++i)
    dims.push_back(n.size(1));
  return n.reshape(b, dims);
}

template <OperatorName name> LogicalResult unary(NodeImport &n) {
  return n.give({n(name, {n.input(0)})});
}

template <OperatorName name> LogicalResult binary(NodeImport &n) {
  auto b = legacyOperand(n, n.input(0), n.input(1));
  return failed(b) ? failure() : n.give({n(name, {n.input(0), *b})});
}

template <OperatorName name> LogicalResult variadic(NodeImport &n) {
  if (n.inputCount() == 0)
    return n.error("has no inputs");
  Value result = n.input(0);
  for (size_t i = 1; i < n.inputCount(); ++i)
    result = n(name, {result, n.input(i)});
  return n.give({result});
}

LogicalResult mean(NodeImport &n) {
  if (failed(variadic<"graph.add">(n)))
    return failure();
  return n.give({n.mul(n.results[0], 1.0 / double(n.inputCount()))});
}

LogicalResult pow(NodeImport &n) {
  // A constant square is a product, which every kernel has.
  auto exponent = n.scalarConstant(n.input(1));
  Value a = n.input(0);
  if (exponent && *exponent == 2 && GraphCode::isRanked(n.input(1)) && n.rank(n.input(1)) == 0)
    return n.give({n.mul(a, a)});
  auto b = legacyOperand(n, a, n.input(1));
  return failed(b) ? failure() : n.give({n("graph.pow", {a, *b})});
}

LogicalResult mod(NodeImport &n) {
  return n.give({n("graph.mod", {n.input(0), n.input(1)}, {n.boolean("fmod", n.intAttr("fmod"))})});
}

LogicalResult bitShift(NodeImport &n) {
  std::string direction = n.stringAttr("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    return n.error("attribute 'direction' is '" + direction + "', not LEFT or RIGHT");
  return n.give(
      {n("graph.bit_shift", {n.input(0), n.input(1)}, {n.boolean("left", direction == "LEFT")})});
}

LogicalResult isInf(NodeImport &n) {
  return n.give({n("graph.isinf", {n.input(0)},
                   {n.boolean("detect_negative", n.intAttr("detect_negative", 1)),
                    n.boolean("detect_positive", n.intAttr("detect_positive", 1))})});
}

LogicalResult castTo(NodeImport &n, Type to) {
  if (!to || !n.has(0))
    return failure();
  return n.give({n("graph.cast", {n.input(0)},
                   {n.type("to", to), n.boolean("saturate", n.intAttr("saturate", 1)),
                    n.text("round_mode", n.stringAttr("round_mode", "up"))})});
}

LogicalResult cast(NodeImport &n) {
  auto *to = n.attribute("to");
  if (to && to->has_s()) { // before opset 6 the type's name
    onnx::TensorProto::DataType type;
    if (!onnx::TensorProto::DataType_Parse(to->s(), &type))
      return n.error("attribute 'to' is '" + to->s() + "', which is no element type");
    auto element = dataTypeFromOnnx(type);
    return castTo(n, element ? elementType(n.builder.getContext(), *element) : Type());
  }
  return castTo(n, n.typeAttr("to", 0));
}

LogicalResult castLike(NodeImport &n) {
  return n.has(1) ? castTo(n, n.element(n.input(1))) : n.error("operand 1 is missing");
}

LogicalResult bitCast(NodeImport &n) {
  Type to = n.typeAttr("to", 0);
  return to ? n.give({n("graph.bit_cast", {n.input(0)}, {n.type("to", to)})}) : failure();
}

LogicalResult clip(NodeImport &n) {
  Value x = n.input(0);
  if (!x)
    return n.error("operand 0 is missing");
  if (n.opset < 11) {
    if (n.hasAttribute("min"))
      x = n("graph.max", {x, n.scalar(x, n.floatAttr("min"))});
    if (n.hasAttribute("max"))
      x = n("graph.min", {x, n.scalar(x, n.floatAttr("max"))});
    return n.give({x});
  }
  if (n.has(1))
    x = n("graph.max", {x, n.input(1)});
  if (n.has(2))
    x = n("graph.min", {x, n.input(2)});
  return n.give({x});
}

LogicalResult reciprocal(NodeImport &n) {
  Value x = n.input(0);
  return x ? n.give({n.div(n.scalar(x, 1), x)}) : failure();
}

LogicalResult identity(NodeImport &n) { return n.give({n.maybe(0)}); }

/// An operator that is one of the graph's.
template <OperatorName name, Rule rule> constexpr Operator same(std::string_view onnx) {
  return {onnx, rule, {}, {name.text, sizeof(name.text) - 1}};
}

constexpr Operator kOperators[] = {
    same<"graph.abs", unary<"graph.abs">>("Abs"),
    same<"graph.neg", unary<"graph.neg">>("Neg"),
    same<"graph.sign", unary<"graph.sign">>("Sign"),
    same<"graph.ceil", unary<"graph.ceil">>("Ceil"),
    same<"graph.floor", unary<"graph.floor">>("Floor"),
    same<"graph.round", unary<"graph.round">>("Round"),
    same<"graph.sqrt", unary<"graph.sqrt">>("Sqrt"),
    same<"graph.exp", unary<"graph.exp">>("Exp"),
    same<"graph.log", unary<"graph.log">>("Log"),
    same<"graph.sin", unary<"graph.sin">>("Sin"),
    same<"graph.cos", unary<"graph.cos">>("Cos"),
    same<"graph.tan", unary<"graph.tan">>("Tan"),
    same<"graph.asin", unary<"graph.asin">>("Asin"),
    same<"graph.acos", unary<"graph.acos">>("Acos"),
    same<"graph.atan", unary<"graph.atan">>("Atan"),
    same<"graph.sinh", unary<"graph.sinh">>("Sinh"),
    same<"graph.cosh", unary<"graph.cosh">>("Cosh"),
    same<"graph.tanh", unary<"graph.tanh">>("Tanh"),
    same<"graph.asinh", unary<"graph.asinh">>("Asinh"),
    same<"graph.acosh", unary<"graph.acosh">>("Acosh"),
    same<"graph.atanh", unary<"graph.atanh">>("Atanh"),
    same<"graph.erf", unary<"graph.erf">>("Erf"),
    same<"graph.sigmoid", unary<"graph.sigmoid">>("Sigmoid"),
    same<"graph.not", unary<"graph.not">>("Not"),
    same<"graph.bitwise_not", unary<"graph.bitwise_not">>("BitwiseNot"),
    same<"graph.isnan", unary<"graph.isnan">>("IsNaN"),
    {"IsInf", isInf},
    {"Identity", identity},
    {"Reciprocal", reciprocal},
    {"Cast", cast},
    {"CastLike", castLike},
    {"BitCast", bitCast},
    same<"graph.add", binary<"graph.add">>("Add"),
    same<"graph.sub", binary<"graph.sub">>("Sub"),
    same<"graph.mul", binary<"graph.mul">>("Mul"),
    same<"graph.div", binary<"graph.div">>("Div"),
    {"Pow", pow},
    {"Mod", mod},
    same<"graph.and", binary<"graph.and">>("And"),
    same<"graph.or", binary<"graph.or">>("Or"),
    same<"graph.xor", binary<"graph.xor">>("Xor"),
    same<"graph.bitwise_and", binary<"graph.bitwise_and">>("BitwiseAnd"),
    same<"graph.bitwise_or", binary<"graph.bitwise_or">>("BitwiseOr"),
    same<"graph.bitwise_xor", binary<"graph.bitwise_xor">>("BitwiseXor"),
    {"BitShift", bitShift},
    same<"graph.equal", binary<"graph.equal">>("Equal"),
    same<"graph.less", binary<"graph.less">>("Less"),
    same<"graph.less_or_equal", binary<"graph.less_or_equal">>("LessOrEqual"),
    same<"graph.greater", binary<"graph.greater">>("Greater"),
    same<"graph.greater_or_equal", binary<"graph.greater_or_equal">>("GreaterOrEqual"),
    same<"graph.min", variadic<"graph.min">>("Min"),
    same<"graph.max", variadic<"graph.max">>("Max"),
    {"Sum", variadic<"graph.add">},
    {"Mean", widened<mean>},
    {"Clip", clip},
    {"Where", [](NodeImport &n) { return n.give({n.where(n.input(0), n.input(1), n.input(2))}); }},
};

} // namespace

std::span<const Operator> elementwiseOperators() { return kOperators; }

} // namespace tensmith::onnx_import
