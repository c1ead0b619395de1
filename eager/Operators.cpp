// The rows, and the rules for results that rows share.
#include "eager/Operators.h"

#include <algorithm>
#include <unordered_map>

namespace tensmith::eager {
namespace {

using reference::ResultType;
using Operands = std::span<const Array>;

// ---- rules

Result<Shape> sharedShape(Operands operands) {
  const Shape *shapes[4];
  size_t count = std::min<size_t>(operands.size(), 4);
  for (size_t k = 0; k < count; ++k)
    shapes[k] = &operands[k].shape();
  if (std::optional<Shape> shape = broadcastShapes(std::span(shapes, count)))
    return std::move(*shape);
  std::string text;
  for (const Array &operand : operands)
    text += (text.empty() ? "" : " and ") + toString(operand.shape());
  return invalidArgument("operands of shapes " + text +
                         " do not broadcast together; sizes must be equal or 1");
}
ResultTypes elementwise(DataType type, Operands operands) {
  Result<Shape> shape = sharedShape(operands);
  if (!shape.ok())
    return shape.status();
  return std::vector<ResultType>{{type, std::move(*shape)}};
}

ResultTypes sameType(const Attributes &, Operands operands) {
  return elementwise(operands[0].type(), operands);
}
ResultTypes partsType(const Attributes &, Operands operands) {
  return elementwise(realType(operands[0].type()), operands);
}
ResultTypes booleans(const Attributes &, Operands operands) {
  return elementwise(DataType::Bool, operands);
}
ResultTypes secondType(const Attributes &, Operands operands) {
  return elementwise(operands[1].type(), operands);
}
ResultTypes givenType(const Attributes &attributes, Operands operands) {
  return elementwise(attributes.type("to"), operands);
}

ResultTypes reducedTo(DataType type, const Attributes &attributes, Operands operands) {
  const Shape &from = operands[0].shape();
  std::vector<int64_t> axes = attributes.integers("axes");
  Shape shape;
  for (int64_t axis = 0; axis < int64_t(from.size()); ++axis) {
    bool isReduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!isReduced)
      shape.push_back(from[size_t(axis)]);
    else if (attributes.integer("keepdims"))
      shape.push_back(1);
  }
  return std::vector<ResultType>{{type, std::move(shape)}};
}
ResultTypes reduced(const Attributes &attributes, Operands operands) {
  return reducedTo(operands[0].type(), attributes, operands);
}
ResultTypes reducedToBooleans(const Attributes &attributes, Operands operands) {
  return reducedTo(DataType::Bool, attributes, operands);
}
ResultTypes reducedToCounts(const Attributes &attributes, Operands operands) {
  return reducedTo(DataType::I64, attributes, operands);
}

/// Of a and b with at least two dimensions each. The array API standard has products of numbers
/// only, and evaluations and kernels of booleans would differ.
ResultTypes product(const Attributes &, Operands operands) {
  if (operands[0].type() == DataType::Bool)
    return unsupported("matmul: elements of type bool have no product; cast the operands to an "
                       "integer type, or use logical_and and any");
  const Shape &a = operands[0].shape(), &b = operands[1].shape();
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2])
    return invalidArgument("matmul: operands of shapes " + toString(a) + " and " + toString(b) +
                           " do not fit; the first one's columns must be as many as the second "
                           "one's rows");
  Shape aroundA(a.begin(), a.end() - 2), aroundB(b.begin(), b.end() - 2);
  const Shape *arounds[] = {&aroundA, &aroundB};
  std::optional<Shape> shape = broadcastShapes(arounds);
  if (!shape)
    return invalidArgument("matmul: operands of shapes " + toString(a) + " and " + toString(b) +
                           " do not broadcast before their last two dimensions");
  shape->push_back(a[a.size() - 2]);
  shape->push_back(b.back());
  return std::vector<ResultType>{{operands[0].type(), std::move(*shape)}};
}

/// The second operand says which elements of the first, along a dimension: what the graph's (G1)
/// says of types and shapes. The places themselves are looked at where they are read.
ResultTypes chosen(const Attributes &attributes, Operands operands) {
  const Shape &x = operands[0].shape(), &indices = operands[1].shape();
  if (!isInteger(operands[1].type()))
    return invalidArgument("gather_elements: indices of type " +
                           std::string(name(operands[1].type())) +
                           " are no places; cast them to an integer type");
  int64_t rank = int64_t(x.size()), axis = attributes.integer("axis");
  if (axis < -rank || axis >= rank)
    return invalidArgument("gather_elements: there is no axis " + std::to_string(axis) +
                           " in an operand of shape " + toString(x) + ", which has " +
                           std::to_string(rank) +
                           " dimensions; count them from 0, or from the last one by -1");
  size_t along = size_t(axis < 0 ? axis + rank : axis);
  bool fits = x.size() == indices.size();
  for (size_t k = 0; fits && k < x.size(); ++k)
    fits = k == along || indices[k] <= x[k];
  if (!fits)
    return invalidArgument("gather_elements: an operand of shape " + toString(x) +
                           " and indices of shape " + toString(indices) +
                           " do not fit along axis " + std::to_string(axis) +
                           "; both must have as many dimensions, and the indices no larger ones "
                           "beside the axis; broadcast them first, as take_along_axis does");
  return std::vector<ResultType>{{operands[0].type(), indices}};
}

// ---- rows

/// `graph`: the reference's name, which is the graph dialect's; empty: an evaluation of our own.
Operator row(std::string_view name, std::string_view graph, decltype(Operator::infer) infer,
             KernelForm form = KernelForm::None, bool exact = false) {
  Operator result{name, nullptr, complexEvaluator(name), infer, graph, form, exact};
  result.evaluate = graph.empty() ? realEvaluator(name) : reference::find(graph);
  for (auto find : {arrangingEvaluator, linearEvaluator, fourierEvaluator})
    if (reference::Evaluator found = find(name)) {
      result.evaluate = result.evaluate ? result.evaluate : found;
      result.evaluateComplex = result.evaluateComplex ? result.evaluateComplex : found;
    }
  return result;
}

std::vector<Operator> elementwiseRows() {
  std::vector<Operator> rows;
  auto exact = [&](std::string_view name, std::string_view graph, decltype(Operator::infer) infer) {
    rows.push_back(row(name, graph, infer, KernelForm::Elementwise, true));
  };
  for (std::string_view name :
       {"add", "sub", "mul", "div", "bitwise_and", "bitwise_or", "bitwise_xor", "neg"})
    exact(name, name, sameType);
  exact("abs", "abs", partsType);
  for (std::string_view name : {"floor", "ceil", "round", "sqrt", "bitwise_not"})
    exact(name, name, sameType);
  for (std::string_view name : {"equal", "less", "less_or_equal", "greater", "greater_or_equal",
                                "and", "or", "xor", "isnan", "not"})
    exact(name, name, booleans);
  exact("where", "where", secondType);
  exact("cast", "cast", givenType);
  for (std::string_view name :
       {"min",  "max",  "pow",  "exp",  "log",  "log1p", "sin",   "cos",   "tan", "asin",
        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid"})
    rows.push_back(row(name, name, sameType, KernelForm::Elementwise));
  for (std::string_view name : {"sign", "bit_shift"})
    rows.push_back(row(name, name, sameType));
  for (std::string_view name :
       {"atan2", "cbrt", "copysign", "exp2", "expm1", "floor_divide", "hypot", "log10", "log2",
        "logaddexp", "nextafter", "reciprocal", "remainder", "square", "trunc", "conj"})
    rows.push_back(row(name, "", sameType));
  for (std::string_view name : {"isfinite", "isinf", "logical_not", "not_equal", "signbit"})
    rows.push_back(row(name, "", booleans));
  for (std::string_view name : {"real", "imag"})
    rows.push_back(row(name, "", partsType));
  return rows;
}

std::vector<Operator> allRows() {
  std::vector<Operator> rows = elementwiseRows();
  rows.push_back(row("sum", "reduce_sum", reduced, KernelForm::Reduction));
  rows.push_back(row("prod", "reduce_prod", reduced));
  rows.push_back(row("amax", "reduce_max", reduced, KernelForm::Reduction));
  rows.push_back(row("amin", "reduce_min", reduced, KernelForm::Reduction));
  rows.push_back(row("argmax", "arg_max", nullptr));
  rows.push_back(row("argmin", "arg_min", nullptr));
  rows.push_back(row("cumulative_sum", "cumsum", sameType));
  rows.push_back(row("cumulative_prod", "cumprod", sameType));
  rows.push_back(row("gather_elements", "gather_elements", chosen));
  rows.push_back(row("any", "", reducedToBooleans));
  rows.push_back(row("all", "", reducedToBooleans));
  rows.push_back(row("count_nonzero", "", reducedToCounts));
  rows.push_back(row("matmul", "matmul", product, KernelForm::Contraction));
  for (std::string_view name :
       {"argsort", "nonzero", "searchsorted", "sequence", "sort", "cholesky", "det", "eigh", "inv",
        "qr", "slogdet", "solve", "svd", "fourier"})
    rows.push_back(row(name, "", nullptr));
  return rows;
}

// ---- promotion

int floatRank(DataType type) {
  return type == DataType::F64 || type == DataType::C128  ? 3
         : type == DataType::F32 || type == DataType::C64 ? 2
                                                          : 1;
}
DataType floatOf(int rank, bool complex) {
  if (complex)
    return rank == 3 ? DataType::C128 : DataType::C64;
  return rank == 3 ? DataType::F64 : DataType::F32;
}
/// Of the float that holds the integers of a type, as NumPy chooses it.
int rankForInteger(DataType type) { return byteSize(type) == 1 ? 1 : byteSize(type) == 2 ? 2 : 3; }

DataType signedOf(int64_t bytes) {
  return bytes == 1   ? DataType::I8
         : bytes == 2 ? DataType::I16
         : bytes == 4 ? DataType::I32
                      : DataType::I64;
}

DataType promotedIntegers(DataType a, DataType b) {
  bool aSigned = info(a).kind == TypeClass::Signed, bSigned = info(b).kind == TypeClass::Signed;
  if (aSigned == bSigned)
    return byteSize(a) >= byteSize(b) ? a : b;
  DataType withSign = aSigned ? a : b, without = aSigned ? b : a;
  if (byteSize(withSign) > byteSize(without))
    return withSign;
  return byteSize(without) == 8 ? DataType::F64 : signedOf(2 * byteSize(without));
}

} // namespace

std::optional<DataType> promotedType(DataType a, DataType b) {
  if (a == b)
    return a;
  auto isNumber = [](DataType type) {
    return type == DataType::Bool || isInteger(type) || isFloat(type) || isComplex(type);
  };
  if (!isNumber(a) || !isNumber(b))
    return std::nullopt;
  if (a == DataType::Bool || b == DataType::Bool)
    return a == DataType::Bool ? b : a;
  if (isInteger(a) && isInteger(b))
    return promotedIntegers(a, b);
  bool complex = isComplex(a) || isComplex(b);
  if (isInteger(a) || isInteger(b)) {
    DataType integer = isInteger(a) ? a : b, other = isInteger(a) ? b : a;
    int rank = std::max(floatRank(other), rankForInteger(integer));
    return rank == floatRank(other) || other == DataType::BF16 ? other : floatOf(rank, complex);
  }
  int rank = std::max(floatRank(a), floatRank(b));
  if (complex)
    return floatOf(std::max(rank, 2), true);
  if (rank == 1) // float16 and bfloat16: neither holds the other
    return DataType::F32;
  return floatOf(rank, false);
}

const Operator *findOperator(std::string_view name) {
  static const auto &table = *[] {
    auto *all = new std::unordered_map<std::string_view, Operator>();
    for (const Operator &each : allRows())
      all->emplace(each.name, each);
    return all;
  }();
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

} // namespace tensmith::eager
