// Element by element; see TensorComparison.h.
#include "tools/tensmith/TensorComparison.h"

#include "tools/tensors/Values.h"

#include <cmath>
#include <fmt/format.h>

namespace tensmith::cli {
namespace {

bool isExact(const HostTensor &tensor) {
  TypeClass kind = info(tensor.type()).kind;
  return kind != TypeClass::Float && kind != TypeClass::Complex;
}

bool sameElement(const HostTensor &a, const HostTensor &b, int64_t i) {
  return a.type() == DataType::String ? a.getString(i) == b.getString(i)
                                      : a.getInt(i) == b.getInt(i);
}

std::string indexText(const Shape &shape, int64_t index) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0; index /= shape[d])
    text = std::to_string(index % shape[d]) + (text.empty() ? "" : ", ") + text;
  return "[" + text + "]";
}

/// Complex elements as twice as many floats.
HostTensor asReal(const HostTensor &tensor) {
  if (info(tensor.type()).kind != TypeClass::Complex)
    return tensor;
  auto part = tensor.type() == DataType::C64 ? DataType::F32 : DataType::F64;
  Shape shape = tensor.shape();
  shape.push_back(2);
  return HostTensor(part, shape, tensor.data(), nullptr);
}

/// The distance of two floats; equal infinities and two NaNs are equal, one alone is infinitely
/// far.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b)))
    return 0;
  double difference = std::abs(a - b);
  return std::isnan(difference) ? INFINITY : difference;
}

void compareElements(const HostTensor &a, const HostTensor &b, const Tolerance &tolerance,
                     Difference &result) {
  double largestOfB = 0;
  bool exact = isExact(a);
  int64_t at = -1; // of the largest difference
  for (int64_t i = 0; i < a.size(); ++i) {
    double difference =
        exact ? (sameElement(a, b, i) ? 0 : 1) : distance(a.getDouble(i), b.getDouble(i));
    if (difference > result.largest || (difference > 0 && at < 0))
      result.largest = difference, at = i;
    if (!exact && std::isfinite(b.getDouble(i)))
      largestOfB = std::max(largestOfB, std::abs(b.getDouble(i)));
  }
  result.allowed = exact ? 0 : tolerance.absolute + tolerance.relative * largestOfB;
  if (at >= 0)
    result.index = indexText(a.shape(), at);
  if (result.largest > result.allowed)
    result.reason =
        fmt::format("at {}: {} and {}", result.index, elementText(a, at), elementText(b, at));
}

/// Values of data types: built alike, and their tensors alike. Lists are long, so a stack of pairs
/// takes the place of recursion. The last difference found is the largest that was looked at.
Difference compareData(const NamedTensor &left, const NamedTensor &right,
                       const Tolerance &tolerance) {
  Difference worst;
  worst.name = left.name;
  std::vector<std::pair<ts_tensor *, ts_tensor *>> waiting = {
      {left.tensor.handle(), right.tensor.handle()}};
  while (!waiting.empty()) {
    auto [a, b] = waiting.back();
    waiting.pop_back();
    if (ts_tensor_kind(a) == TS_DATA && ts_tensor_kind(b) == TS_DATA) {
      size_t count = ts_tensor_sequence_length(a);
      if (ts_tensor_constructor(a) != ts_tensor_constructor(b) ||
          count != ts_tensor_sequence_length(b)) {
        worst.reason = fmt::format("a value has constructor {} on one side and {} on the other",
                                   ts_tensor_constructor(a), ts_tensor_constructor(b));
        worst.largest = INFINITY;
        return worst;
      }
      for (size_t i = count; i-- > 0;)
        waiting.push_back({ts_tensor_sequence_at(a, i), ts_tensor_sequence_at(b, i)});
      continue;
    }
    ts_tensor_retain(a);
    ts_tensor_retain(b);
    Difference one = compareTensors({left.name, Tensor(a)}, {right.name, Tensor(b)}, tolerance);
    if (!one.agrees())
      return one;
    if (one.largest >= worst.largest)
      worst = one;
  }
  return worst;
}

} // namespace

Difference compareTensors(const NamedTensor &left, const NamedTensor &right,
                          const Tolerance &tolerance) {
  Difference result;
  result.name = left.name;
  const Tensor &a = left.tensor, &b = right.tensor;
  if (a.kind() == TS_DATA && b.kind() == TS_DATA)
    return compareData(left, right, tolerance);
  if (typeText(a) != typeText(b)) {
    result.reason = typeText(a) + " and " + typeText(b);
    return result;
  }
  if (a.kind() == TS_TENSOR)
    compareElements(asReal(view(a)), asReal(view(b)), tolerance, result);
  if (a.kind() != TS_SEQUENCE && a.kind() != TS_MAP)
    return result;
  for (size_t i = 0; i < ts_tensor_sequence_length(a.handle()); ++i) {
    ts_tensor *elements[] = {ts_tensor_sequence_at(a.handle(), i),
                             ts_tensor_sequence_at(b.handle(), i)};
    std::string name = fmt::format("{}[{}]", left.name, i);
    ts_tensor_retain(elements[0]);
    ts_tensor_retain(elements[1]);
    Difference one =
        compareTensors({name, Tensor(elements[0])}, {name, Tensor(elements[1])}, tolerance);
    if (!one.reason.empty())
      return one;
  }
  return result;
}

} // namespace tensmith::cli
