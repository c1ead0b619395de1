// The operators on sequences and optional values (compiler/graph/StructureOps.td), as in ONNX: they
// move references to tensors, and so are no part of the reference evaluator, which knows tensors
// alone.
#include "runtime/Interpreter.h"

#include <algorithm>
#include <cstring>

namespace tensmith::runtime {
namespace {

using Operands = std::span<const TensorRef>;

bool present(Operands operands, size_t index) {
  return index < operands.size() && operands[index] && operands[index]->kind() != TensorKind::None;
}

Status wrong(const char *operation, const std::string &why) {
  return invalidArgument(std::string(operation) + ": " + why);
}

Status expectSequence(Operands operands, const char *operation) {
  if (present(operands, 0) && operands[0]->kind() == TensorKind::Sequence)
    return {};
  return wrong(operation, "its operand is no sequence");
}

/// A position as an operand gives it, negative ones from the end; `otherwise` where it is absent.
/// Valid positions are [0, limit).
Result<int64_t> position(Operands operands, size_t index, int64_t length, int64_t limit,
                         int64_t otherwise, const char *operation) {
  if (!present(operands, index))
    return otherwise;
  const TensorRef &tensor = operands[index];
  if (tensor->kind() != TensorKind::Tensor || tensor->size() != 1 || !isInteger(tensor->type()))
    return wrong(operation, "a position is one integer, not " + describe(*tensor));
  int64_t given = toHostTensor(tensor).getInt(0);
  int64_t value = given < 0 ? given + length : given;
  if (value < 0 || value >= limit)
    return wrong(operation, "position " + std::to_string(given) + " is outside a sequence of " +
                                std::to_string(length));
  return value;
}

Result<TensorRef> construct(Operands operands, const Attributes &) {
  for (const TensorRef &operand : operands)
    if (!operand || operand->kind() != TensorKind::Tensor)
      return wrong("sequence_construct", "a sequence is made of tensors");
  return Tensor::sequence({operands.begin(), operands.end()});
}

Result<TensorRef> at(Operands operands, const Attributes &) {
  if (Status status = expectSequence(operands, "sequence_at"); !status.ok())
    return status;
  const auto &elements = operands[0]->elements();
  int64_t length = int64_t(elements.size());
  auto index = position(operands, 1, length, length, -1, "sequence_at");
  if (!index)
    return index.status();
  return *index < 0 ? Result<TensorRef>(wrong("sequence_at", "no position was given"))
                    : elements[size_t(*index)];
}

Result<TensorRef> insert(Operands operands, const Attributes &) {
  if (Status status = expectSequence(operands, "sequence_insert"); !status.ok())
    return status;
  if (!present(operands, 1) || operands[1]->kind() != TensorKind::Tensor)
    return wrong("sequence_insert", "a sequence is made of tensors");
  std::vector<TensorRef> elements = operands[0]->elements();
  int64_t length = int64_t(elements.size());
  auto index = position(operands, 2, length, length + 1, length, "sequence_insert");
  if (!index)
    return index.status();
  elements.insert(elements.begin() + *index, operands[1]);
  return Tensor::sequence(std::move(elements));
}

Result<TensorRef> erase(Operands operands, const Attributes &) {
  if (Status status = expectSequence(operands, "sequence_erase"); !status.ok())
    return status;
  std::vector<TensorRef> elements = operands[0]->elements();
  int64_t length = int64_t(elements.size());
  auto index = position(operands, 1, length, length, length - 1, "sequence_erase");
  if (!index)
    return index.status();
  if (*index < 0)
    return wrong("sequence_erase", "the sequence is empty");
  elements.erase(elements.begin() + *index);
  return Tensor::sequence(std::move(elements));
}

template <typename T> Result<TensorRef> scalar(DataType type, T value) {
  auto tensor = Tensor::create(type, {});
  if (tensor)
    std::memcpy((*tensor)->data(), &value, sizeof(T));
  return tensor;
}

Result<TensorRef> length(Operands operands, const Attributes &) {
  if (Status status = expectSequence(operands, "sequence_length"); !status.ok())
    return status;
  return scalar(DataType::I64, int64_t(operands[0]->elements().size()));
}

/// The axis as an index into `rank` dimensions.
Result<int64_t> axisOf(const Attributes &attributes, int64_t rank, const char *operation) {
  int64_t given = attributes.integer("axis"), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank)
    return wrong(operation, "axis " + std::to_string(given) + " is outside of " +
                                std::to_string(rank) + " dimensions");
  return axis;
}

/// Elements around an axis: `outer` blocks of `length` times `inner` elements.
struct Blocks {
  int64_t outer = 1, length = 1, inner = 1;
  Blocks(const Shape &shape, size_t axis) {
    for (size_t i = 0; i < shape.size(); ++i)
      (i < axis ? outer : i == axis ? length : inner) *= shape[i];
  }
};

/// Copies blocks of elements between two positions along an axis of two tensors.
void copyBlocks(const Tensor &from, const Blocks &fromBlocks, int64_t fromStart, Tensor &to,
                const Blocks &toBlocks, int64_t toStart, int64_t length) {
  int64_t bytes = byteSize(from.type());
  int64_t run = length * fromBlocks.inner * bytes;
  for (int64_t i = 0; run > 0 && i < fromBlocks.outer; ++i)
    std::memcpy(to.data() + (i * toBlocks.length + toStart) * toBlocks.inner * bytes,
                from.data() + (i * fromBlocks.length + fromStart) * fromBlocks.inner * bytes,
                size_t(run));
}

Result<TensorRef> part(const Tensor &tensor, size_t axis, int64_t start, int64_t length) {
  Shape shape = tensor.shape();
  shape[axis] = length;
  Blocks blocks(tensor.shape(), axis), partBlocks(shape, axis);
  if (tensor.type() == DataType::String) {
    std::vector<std::string> strings;
    for (int64_t i = 0; i < blocks.outer; ++i) {
      auto first = tensor.strings().begin() + (i * blocks.length + start) * blocks.inner;
      strings.insert(strings.end(), first, first + length * blocks.inner);
    }
    return Tensor::ofStrings(std::move(strings), shape);
  }
  auto result = Tensor::create(tensor.type(), shape);
  if (result)
    copyBlocks(tensor, blocks, start, **result, partBlocks, 0, length);
  return result;
}

/// The lengths of the parts: pieces of one (absent), of a scalar's size, or as listed.
Result<std::vector<int64_t>> partLengths(Operands operands, int64_t whole) {
  std::vector<int64_t> lengths;
  if (present(operands, 1) && operands[1]->kind() == TensorKind::Tensor &&
      operands[1]->shape().size() == 1) {
    HostTensor split = toHostTensor(operands[1]);
    int64_t sum = 0;
    for (int64_t i = 0; i < split.size(); ++i) {
      lengths.push_back(split.getInt(i));
      if (lengths.back() < 0 || __builtin_add_overflow(sum, lengths.back(), &sum))
        return wrong("split_to_sequence", "a part has no valid length");
    }
    if (sum != whole)
      return wrong("split_to_sequence", "the parts have " + std::to_string(sum) + " of " +
                                            std::to_string(whole) + " elements");
    return lengths;
  }
  int64_t piece = present(operands, 1) ? toHostTensor(operands[1]).getInt(0) : 1;
  if (piece <= 0)
    return wrong("split_to_sequence", "the parts' length must be positive");
  for (int64_t start = 0; start < whole; start += piece)
    lengths.push_back(std::min(piece, whole - start));
  return lengths;
}

Result<TensorRef> split(Operands operands, const Attributes &attributes) {
  bool valid = present(operands, 0) && operands[0]->kind() == TensorKind::Tensor &&
               (!present(operands, 1) ||
                (operands[1]->kind() == TensorKind::Tensor && isInteger(operands[1]->type()) &&
                 operands[1]->shape().size() <= 1));
  if (!valid)
    return wrong("split_to_sequence", "it splits a tensor by integers");
  const Tensor &tensor = *operands[0];
  auto axis = axisOf(attributes, int64_t(tensor.shape().size()), "split_to_sequence");
  if (!axis)
    return axis.status();
  auto lengths = partLengths(operands, tensor.shape()[size_t(*axis)]);
  if (!lengths)
    return lengths.status();
  bool squeeze = !present(operands, 1) && attributes.integer("keepdims", 1) == 0;
  std::vector<TensorRef> elements;
  int64_t start = 0;
  for (int64_t length : *lengths) {
    auto element = part(tensor, size_t(*axis), start, length);
    if (element && squeeze) {
      Shape shape = (*element)->shape();
      shape.erase(shape.begin() + *axis);
      element = (*element)->reshaped(shape);
    }
    if (!element)
      return element;
    elements.push_back(std::move(*element));
    start += length;
  }
  return Tensor::sequence(std::move(elements));
}

Result<TensorRef> join(std::span<const TensorRef> elements, size_t axis) {
  Shape shape = elements[0]->shape();
  shape[axis] = 0;
  for (const TensorRef &element : elements) {
    Shape other = element->shape();
    bool fits = element->type() == elements[0]->type() && other.size() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i)
      fits = i == axis || other[i] == shape[i];
    if (!fits)
      return wrong("concat_from_sequence",
                   describe(*elements[0]) + " and " + describe(*element) + " can't be joined");
    shape[axis] += other[axis];
  }
  if (elements[0]->type() == DataType::String) {
    if (axis != 0 && Blocks(shape, axis).outer > 1)
      return Status(StatusCode::Unsupported,
                    "concat_from_sequence: strings are joined along the first dimension alone");
    std::vector<std::string> strings;
    for (const TensorRef &element : elements)
      strings.insert(strings.end(), element->strings().begin(), element->strings().end());
    return Tensor::ofStrings(std::move(strings), shape);
  }
  auto result = Tensor::create(elements[0]->type(), shape);
  if (!result)
    return result;
  Blocks whole(shape, axis);
  int64_t start = 0;
  for (const TensorRef &element : elements) {
    Blocks blocks(element->shape(), axis);
    copyBlocks(*element, blocks, 0, **result, whole, start, blocks.length);
    start += blocks.length;
  }
  return result;
}

Result<TensorRef> concat(Operands operands, const Attributes &attributes) {
  if (Status status = expectSequence(operands, "concat_from_sequence"); !status.ok())
    return status;
  std::vector<TensorRef> elements = operands[0]->elements();
  if (elements.empty())
    return wrong("concat_from_sequence", "the sequence is empty");
  bool newAxis = attributes.integer("new_axis") != 0;
  int64_t rank = int64_t(elements[0]->shape().size()) + newAxis;
  auto axis = axisOf(attributes, rank, "concat_from_sequence");
  if (!axis)
    return axis.status();
  for (TensorRef &element : elements) {
    if (!newAxis)
      break;
    Shape shape = element->shape();
    if (int64_t(shape.size()) + 1 != rank)
      return wrong("concat_from_sequence", "the elements differ in rank");
    shape.insert(shape.begin() + *axis, 1);
    auto seen = element->reshaped(shape);
    if (!seen)
      return seen;
    element = std::move(*seen);
  }
  return join(elements, size_t(*axis));
}

Result<TensorRef> itself(Operands operands, const Attributes &) {
  return operands.empty() || !operands[0] ? Tensor::none() : operands[0];
}

Result<TensorRef> nothing(Operands, const Attributes &) { return Tensor::none(); }

Result<TensorRef> hasElement(Operands operands, const Attributes &) {
  return scalar(DataType::Bool, uint8_t(present(operands, 0)));
}

Result<TensorRef> getElement(Operands operands, const Attributes &) {
  if (!present(operands, 0))
    return wrong("optional_get_element", "the optional value is none");
  return operands[0];
}

struct Entry {
  std::string_view name;
  SequenceEvaluator evaluate;
};

constexpr Entry kEntries[] = {
    {"sequence_construct", construct},    {"sequence_at", at},
    {"sequence_insert", insert},          {"sequence_erase", erase},
    {"sequence_length", length},          {"split_to_sequence", split},
    {"concat_from_sequence", concat},     {"optional", itself},
    {"optional_none", nothing},           {"optional_has_element", hasElement},
    {"optional_get_element", getElement},
};

} // namespace

SequenceEvaluator findSequenceOperator(std::string_view name) {
  for (const Entry &entry : kEntries)
    if (entry.name == name)
      return entry.evaluate;
  return nullptr;
}

} // namespace tensmith::runtime
