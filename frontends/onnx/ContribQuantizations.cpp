// Operators on codes with scales: computed on the numbers that they stand for, rounded once at the
// end; products exactly in i32. See Contrib.h.
#include "frontends/onnx/Contrib.h"
#include "frontends/onnx/IntegerProducts.h"
#include "frontends/onnx/Schemas.h"

namespace tensmith::onnx_import {
namespace {

/// The number of codes with one scale and, maybe, one zero point.
Value numbersOf(NodeImport &n, Value codes, Value scale, Value zeroPoint) {
  if (!codes || !scale)
    return {};
  Value numbers = n.cast(shifted(n, codes, zeroPoint), n.builder.getF32Type());
  return n.mul(numbers, widened(n, scale));
}

/// The operands from `first` on: codes, scale, zero point.
Value numbersAt(NodeImport &n, size_t first) {
  return numbersOf(n, n.input(first), n.input(first + 1), n.input(first + 2));
}

/// Codes of x by the scale and zero point at `first`; of `type` where there is no zero point.
Value codesOf(NodeImport &n, Value x, size_t first, Type type) {
  if (!x || !n.has(first))
    return {};
  Value zeroPoint = n.input(first + 1);
  return n("graph.quantize", {x, widened(n, n.input(first)), n.maybe(first + 1)},
           {n.integer("axis", 0), n.type("to", zeroPoint ? n.element(zeroPoint) : type)});
}

template <Value (*formula)(NodeImport &, Value, Value)> LogicalResult binary(NodeImport &n) {
  for (size_t i : {0, 1, 3, 4, 6})
    if (!n.has(i))
      return n.error("operand " + llvm::Twine(i) + " is missing");
  Value y = formula(n, numbersAt(n, 0), numbersAt(n, 3));
  return n.give({codesOf(n, y, 6, n.element(n.input(0)))});
}

Value sum(NodeImport &n, Value a, Value b) { return n.add(a, b); }
Value product(NodeImport &n, Value a, Value b) { return n.mul(a, b); }

/// Operands: x, its scale and zero point, y's.
template <Value (*formula)(NodeImport &, Value)> LogicalResult unary(NodeImport &n) {
  for (size_t i : {0, 1, 3})
    if (!n.has(i))
      return n.error("operand " + llvm::Twine(i) + " is missing");
  if (failed(n.needRank(0)))
    return failure();
  return n.give({codesOf(n, formula(n, numbersAt(n, 0)), 3, n.element(n.input(0)))});
}

Value sigmoid(NodeImport &n, Value x) { return n.unary("graph.sigmoid", x); }

Value leakyRelu(NodeImport &n, Value x) {
  return x ? n.where(n("graph.less", {x, n.scalar(x, 0)}), n.mul(x, n.floatAttr("alpha", 0.01)), x)
           : x;
}

/// `opset` is the Softmax whose meaning of `axis` it has.
Value softmax(NodeImport &n, Value x) {
  if (!x)
    return x;
  bool flattens = n.intAttr("opset") < 13;
  auto dims = n.dims(x);
  auto axis = n.axis(n.intAttr("axis", flattens ? 1 : -1), int64_t(dims.size()));
  if (failed(axis))
    return {};
  if (!flattens)
    return n("graph.softmax", {x}, n.integer("axis", *axis));
  auto &shapes = n.graph.shapes;
  ArrayRef<AffineExpr> all(dims);
  Value flat = n.reshape(x, {shapes.product(all.take_front(size_t(*axis))),
                             shapes.product(all.drop_front(size_t(*axis)))});
  return flat ? n.reshape(n("graph.softmax", {flat}, n.integer("axis", 1)), dims) : flat;
}

Value globalAverage(NodeImport &n, Value x) {
  if (!x || n.rank(x) < 3)
    return {};
  bool last = n.intAttr("channels_last") != 0;
  Ints axes;
  for (int64_t dim = last ? 1 : 2; dim < n.rank(x) - (last ? 1 : 0); ++dim)
    axes.push_back(dim);
  return n.mean(x, axes);
}

/// A rule of the standard on other operands, channels first whatever the node has.
Value byStandard(NodeImport &n, std::string_view name, Value x, bool channelsAreLast) {
  if (!x)
    return x;
  n.inputs.assign({channelsAreLast ? channelsFirst(n, x) : x});
  if (failed(importAs(n, name)))
    return {};
  return channelsAreLast ? channelsLast(n, n.results[0]) : n.results[0];
}

LogicalResult averagePool(NodeImport &n) {
  if (failed(needOperands(n, 2, 1)) || !n.has(3))
    return n.error("has not its scales");
  Type type = n.element(n.input(0));
  SmallVector<Value> operands = n.inputs;
  Value y = byStandard(n, "AveragePool", numbersAt(n, 0), n.intAttr("channels_last"));
  n.inputs = operands;
  return n.give({codesOf(n, y, 3, type)});
}

LogicalResult nhwcMaxPool(NodeImport &n) {
  if (failed(needOperands(n, 1, 1)))
    return failure();
  return n.give({byStandard(n, "MaxPool", n.input(0), true)});
}

LogicalResult qlinearConv(NodeImport &n) {
  if (failed(needOperands(n, 1, 1)))
    return failure();
  bool last = n.intAttr("channels_last") != 0;
  if (last)
    n.inputs[0] = channelsFirst(n, n.input(0));
  if (failed(importAs(n, "QLinearConv")))
    return failure();
  return last ? n.give({channelsLast(n, n.results[0])}) : success();
}

/// Operands: y's scale and zero point, then each input's codes, scale and zero point.
LogicalResult concat(NodeImport &n) {
  if (failed(needOperands(n, 5)) || (n.inputCount() - 2) % 3)
    return n.error("has not a scale and a zero point for each input");
  SmallVector<Value> parts;
  for (size_t i = 2; i < n.inputCount(); i += 3)
    parts.push_back(numbersAt(n, i));
  if (llvm::is_contained(parts, Value()))
    return n.error("an input is missing");
  return n.give({codesOf(n, n.concat(parts, n.intAttr("axis")), 0, n.element(n.input(2)))});
}

/// Operands: condition; x, its scale and zero point; y, the same; z's.
LogicalResult choose(NodeImport &n) {
  for (size_t i : {0, 1, 2, 4, 5, 7})
    if (!n.has(i))
      return n.error("operand " + llvm::Twine(i) + " is missing");
  Value z = n.where(n.input(0), numbersAt(n, 1), numbersAt(n, 4));
  return n.give({codesOf(n, z, 7, n.element(n.input(1)))});
}

LogicalResult reduceMean(NodeImport &n) {
  if (failed(needOperands(n, 2, 1)) || !n.has(3))
    return n.error("has not its scales");
  Value x = numbersAt(n, 0);
  Ints given = n.intsAttr("axes");
  if (given.empty())
    for (int64_t dim = 0; dim < n.rank(x); ++dim)
      given.push_back(dim);
  auto axes = n.axes(given, n.rank(x));
  if (failed(axes))
    return failure();
  Value mean = n.mean(x, *axes);
  if (mean && !n.intAttr("keepdims", 1)) {
    NodeImport::Dims kept;
    for (auto [dim, size] : llvm::enumerate(n.dims(mean)))
      if (!llvm::is_contained(*axes, int64_t(dim)))
        kept.push_back(size);
    mean = n.reshape(mean, kept);
  }
  return n.give({codesOf(n, mean, 3, n.element(n.input(0)))});
}

/// A vector of columns' scales or zero points as it is; of rows of a transposed b, too, since they
/// belong to the product's columns.
LogicalResult qgemm(NodeImport &n) {
  for (size_t i : {0, 1, 3, 4})
    if (!n.has(i))
      return n.error("operand " + llvm::Twine(i) + " is missing");
  if (failed(n.needRank(0)) || failed(n.needRank(3)) || n.rank(n.input(0)) != 2 ||
      n.rank(n.input(3)) != 2)
    return n.error("operands a and b have not rank 2");
  Value a = n.input(0), b = n.input(3);
  a = n.intAttr("transA") ? n.transpose(a, {1, 0}) : a;
  b = n.intAttr("transB") ? n.transpose(b, {1, 0}) : b;
  Value sum = n.matmul(shifted(n, a, n.input(2)), shifted(n, b, n.input(5)));
  if (n.has(6))
    sum = n.add(sum, n.input(6));
  Value scale = n.mul(n.mul(n.input(1), n.input(4)), n.floatAttr("alpha", 1));
  Value y = n.mul(n.cast(sum, n.builder.getF32Type()), scale);
  return n.give({n.has(7) ? codesOf(n, y, 7, n.element(n.input(0))) : y});
}

/// ONNX Runtime's forms of the standard's, which allowed 16 bits before the standard did.
template <char which> LogicalResult linear(NodeImport &n) {
  return importAs(n, which == 'q' ? "QuantizeLinear" : "DequantizeLinear");
}

/// Products of codes relative to their zero points, in i32.
LogicalResult mulInteger(NodeImport &n) {
  if (!n.has(0) || !n.has(2))
    return n.error("an operand is missing");
  return n.give({n.mul(shifted(n, n.input(0), n.input(1)), shifted(n, n.input(2), n.input(3)))});
}

constexpr Operator kOperators[] = {
    {"QLinearAdd", binary<sum>, kContrib},
    {"QLinearMul", binary<product>, kContrib},
    {"QLinearSigmoid", unary<sigmoid>, kContrib},
    {"QLinearLeakyRelu", unary<leakyRelu>, kContrib},
    {"QLinearSoftmax", unary<softmax>, kContrib},
    {"QLinearGlobalAveragePool", unary<globalAverage>, kContrib},
    {"QLinearAveragePool", averagePool, kContrib},
    {"QLinearConcat", concat, kContrib},
    {"QLinearWhere", choose, kContrib},
    {"QLinearReduceMean", reduceMean, kContrib},
    {"QLinearConv", qlinearConv, kContrib},
    {"QGemm", qgemm, kContrib},
    {"NhwcMaxPool", nhwcMaxPool, kContrib},
    {"QuantizeLinear", linear<'q'>, kContrib},
    {"DequantizeLinear", linear<'d'>, kContrib},
    {"MulInteger", mulInteger, kContrib},
};

} // namespace

std::span<const Operator> contribQuantizationOperators() { return kOperators; }

} // namespace tensmith::onnx_import
