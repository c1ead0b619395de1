// What the operators on sequences compute of tensors; see Sequences.h.
#include "reference/Sequences.h"

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

} // namespace tensmith::reference
