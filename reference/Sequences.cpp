// What the operators on sequences and maps compute of tensors; see Sequences.h.
#include "reference/Sequences.h"

#include <algorithm>
#include <numeric>

namespace tensmith::reference {
namespace {

/// The attribute as an index into `rank` dimensions.
Result<int64_t> axisOf(const Attributes &attributes, int64_t rank) {
  int64_t given = attributes.integer("axis"), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank)
    return invalidArgument("axis " + std::to_string(given) + " is outside of " +
                           std::to_string(rank) + " dimensions");
  return axis;
}

Result<std::vector<int64_t>> listedLengths(const HostTensor &split, int64_t whole) {
  std::vector<int64_t> lengths;
  int64_t sum = 0;
  for (int64_t i = 0; i < split.size(); ++i) {
    lengths.push_back(split.getInt(i));
    if (lengths.back() < 0 || __builtin_add_overflow(sum, lengths.back(), &sum))
      return invalidArgument("a part has no valid length");
  }
  if (sum != whole)
    return invalidArgument("the parts have " + std::to_string(sum) + " of " +
                           std::to_string(whole) + " elements");
  return lengths;
}

/// The lengths of the parts: pieces of one (absent), of a scalar's size, or as listed.
Result<std::vector<int64_t>> partLengths(const HostTensor *split, int64_t whole) {
  if (split && (!isInteger(split->type()) || split->rank() > 1))
    return invalidArgument("it splits by one integer or a list of them");
  if (split && split->rank() == 1)
    return listedLengths(*split, whole);
  int64_t piece = split ? split->getInt(0) : 1;
  if (piece <= 0)
    return invalidArgument("the parts' length must be positive");
  std::vector<int64_t> lengths;
  for (int64_t start = 0; start < whole; start += lengths.back())
    lengths.push_back(std::min(piece, whole - start));
  return lengths;
}

Result<HostTensor> only(Result<std::vector<HostTensor>> results) {
  if (!results)
    return results.status();
  return std::move((*results)[0]);
}

Result<HostTensor> part(const HostTensor &x, int64_t axis, int64_t start, int64_t length) {
  std::vector<int64_t> starts(size_t(x.rank()), 0), steps(size_t(x.rank()), 1);
  starts[size_t(axis)] = start;
  Attributes parameters;
  parameters.set("starts", starts);
  parameters.set("steps", steps);
  ResultType type{x.type(), x.shape()};
  (*type.shape)[size_t(axis)] = length;
  return only(evaluate({"slice", parameters, {&x, 1}, {&type, 1}}));
}

} // namespace

Result<int64_t> sequencePosition(const HostTensor &position, int64_t length, int64_t limit) {
  if (position.size() != 1 || !isInteger(position.type()))
    return invalidArgument("a position is one integer, not " + std::to_string(position.size()) +
                           " of " + std::string(name(position.type())));
  int64_t given = position.getInt(0), index = given < 0 ? given + length : given;
  if (index < 0 || index >= limit)
    return invalidArgument("position " + std::to_string(given) + " is outside a sequence of " +
                           std::to_string(length));
  return index;
}

Result<std::vector<HostTensor>> splitToTensors(const HostTensor &x, const HostTensor *split,
                                               const Attributes &attributes) {
  auto axis = axisOf(attributes, x.rank());
  if (!axis)
    return axis.status();
  auto lengths = partLengths(split, x.shape()[size_t(*axis)]);
  if (!lengths)
    return lengths.status();
  bool squeeze = !split && attributes.integer("keepdims", 1) == 0;
  std::vector<HostTensor> parts;
  int64_t start = 0;
  for (int64_t length : *lengths) {
    auto element = part(x, *axis, start, length);
    if (!element)
      return element.status();
    Shape shape = element->shape();
    if (squeeze)
      shape.erase(shape.begin() + *axis);
    parts.push_back(squeeze ? element->reshaped(shape) : std::move(*element));
    start += length;
  }
  return parts;
}

Result<HostTensor> zerosOf(const HostTensor &x) {
  if (!isFloat(x.type()) && !isInteger(x.type()))
    return invalidArgument("there is no zero of " + std::string(name(x.type())));
  HostTensor zeros(x.type(), x.shape());
  for (int64_t i = 0; i < zeros.size(); ++i)
    zeros.setDouble(i, 0);
  return zeros;
}

Result<HostTensor> sumOf(const HostTensor &a, const HostTensor &b) {
  HostTensor operands[] = {a, b};
  ResultType type{a.type(), std::nullopt};
  return only(evaluate({"add", {}, operands, {&type, 1}}));
}

Result<int64_t> sizeAlong(const HostTensor &x, const Attributes &attributes) {
  auto axis = axisOf(attributes, x.rank());
  if (!axis)
    return axis.status();
  return x.shape()[size_t(*axis)];
}

Result<HostTensor> concatTensors(std::vector<HostTensor> elements, const Attributes &attributes) {
  if (elements.empty())
    return invalidArgument("the sequence is empty");
  bool isNew = attributes.integer("new_axis") != 0;
  int64_t rank = elements[0].rank() + isNew;
  auto axis = axisOf(attributes, rank);
  if (!axis)
    return axis.status();
  for (HostTensor &element : elements) {
    if (element.rank() + isNew != rank)
      return invalidArgument("the elements differ in rank");
    Shape shape = element.shape();
    if (isNew)
      shape.insert(shape.begin() + *axis, 1);
    element = element.reshaped(shape);
  }
  Attributes parameters;
  parameters.set("axis", *axis);
  ResultType type{elements[0].type(), std::nullopt};
  return only(evaluate({"concat", parameters, elements, {&type, 1}}));
}

Result<std::vector<int64_t>> entryOrder(const HostTensor &keys) {
  bool areStrings = keys.type() == DataType::String;
  if (keys.rank() != 1 || (!areStrings && keys.type() != DataType::I64))
    return invalidArgument("a map's keys are a vector of i64 or strings, not " +
                           toString(keys.shape()) + " of " + std::string(name(keys.type())));
  auto less = [&](int64_t a, int64_t b) {
    return areStrings ? keys.getString(a) < keys.getString(b) : keys.getInt(a) < keys.getInt(b);
  };
  std::vector<int64_t> numbers(static_cast<size_t>(keys.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  // Equal ones stand in their order; the last stays.
  std::sort(numbers.begin(), numbers.end(),
            [&](int64_t a, int64_t b) { return less(a, b) || (!less(b, a) && a < b); });
  size_t kept = 0;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (i + 1 == numbers.size() || less(numbers[i], numbers[i + 1]))
      numbers[kept++] = numbers[i];
  numbers.resize(kept);
  return numbers;
}

Result<HostTensor> entriesOf(const HostTensor &x, std::span<const int64_t> numbers) {
  int64_t columns = x.shape().back(), rows = x.rank() == 2 ? x.shape()[0] : 1;
  int64_t picked = int64_t(numbers.size()), size = byteSize(x.type());
  Shape shape = x.shape();
  shape.back() = picked;
  HostTensor result(x.type(), shape);
  if (!result.valid())
    return Status(StatusCode::ResourceExhausted, "there is not enough memory for a map's entries");
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < picked; ++i) {
      int64_t from = row * columns + numbers[size_t(i)], to = row * picked + i;
      if (x.type() == DataType::String)
        result.setString(to, x.getString(from));
      else
        std::memcpy(result.mutableData() + to * size, x.data() + from * size, size_t(size));
    }
  return result;
}

HostTensor ZippedRows::row(int64_t number) const {
  int64_t count = keys.size();
  if (values->type() == DataType::String) {
    std::vector<std::string> strings;
    for (int64_t i = 0; i < count; ++i)
      strings.push_back(values->getString(number * count + i));
    return HostTensor::ofStrings({count}, std::move(strings));
  }
  return HostTensor(values->type(), {count},
                    values->data() + number * count * byteSize(values->type()), values);
}

Result<ZippedRows> zipRows(const HostTensor &keys, const HostTensor &x) {
  auto order = entryOrder(keys);
  if (!order)
    return order.status();
  if (keys.size() == 0 || x.rank() < 1 || x.rank() > 2 || x.shape().back() != keys.size())
    return invalidArgument("rows of " + toString(x.shape()) + " elements for " +
                           std::to_string(keys.size()) + " keys");
  auto ordered = entriesOf(keys, *order);
  auto values = entriesOf(x, *order);
  if (!ordered || !values)
    return ordered ? values.status() : ordered.status();
  if (values->rank() == 1)
    *values = values->reshaped({1, values->size()});
  return ZippedRows{std::move(*ordered), std::make_shared<HostTensor>(std::move(*values))};
}

} // namespace tensmith::reference
