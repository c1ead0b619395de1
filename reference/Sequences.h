// The operators on sequences, maps and optional values (compiler/graph/StructureOps.td), as in
// ONNX, written once for all that hold such values: they move references, and whose references
// those are is the caller's to say.
//
// `Access` names the caller's kind of value and how it is taken apart and made:
//
//   using Value = ...;
//   static ValueKind kind(const Value &);
//   static HostTensor tensor(const Value &);                    // of a tensor, without a copy
//   static std::span<const Value> elements(const Value &);       // of a sequence; or a vector
//   static Result<Value> ofTensor(HostTensor);
//   static Value ofElements(std::vector<Value>);
//   static Value ofMap(Value keys, Value values);                // elements() gives both
//   static Value none();
#pragma once

#include "reference/Reference.h"

namespace tensmith::reference {

enum class ValueKind : uint8_t { None, Tensor, Sequence, Map };

/// A position as an operand gives it, negative ones from the end; valid are those in [0, limit).
Result<int64_t> sequencePosition(const HostTensor &position, int64_t length, int64_t limit);
/// split_to_sequence; `split` is null where it is absent.
Result<std::vector<HostTensor>> splitToTensors(const HostTensor &x, const HostTensor *split,
                                               const Attributes &attributes);
/// concat_from_sequence.
Result<HostTensor> concatTensors(std::vector<HostTensor> elements, const Attributes &attributes);

/// Zeros of the type and shape.
Result<HostTensor> zerosOf(const HostTensor &x);
Result<HostTensor> sumOf(const HostTensor &a, const HostTensor &b);
/// The size along the attribute `axis`.
Result<int64_t> sizeAlong(const HostTensor &x, const Attributes &attributes);

/// The numbers of a map's entries in the order of their keys, the last of those with equal keys.
/// InvalidArgument where the keys are no vector of i64 or strings.
Result<std::vector<int64_t>> entryOrder(const HostTensor &keys);
/// The elements of a vector, or of each row of a matrix, with those numbers; in memory of its own.
Result<HostTensor> entriesOf(const HostTensor &x, std::span<const int64_t> numbers);

/// What zip_map makes its maps of: keys in order, and values [rows, keys].
struct ZippedRows {
  HostTensor keys;
  std::shared_ptr<const HostTensor> values;

  int64_t rows() const { return values->shape()[0]; }
  HostTensor row(int64_t number) const;
};
Result<ZippedRows> zipRows(const HostTensor &keys, const HostTensor &x);

template <typename Access> class SequenceOperators {
public:
  using Value = typename Access::Value;
  using Operands = std::span<const Value>;
  using Evaluator = Result<Value> (*)(Operands, const Attributes &);

  /// The evaluator of the operator with that name, or null. Its errors say the name.
  static Evaluator find(std::string_view name) {
    for (const Entry &entry : kEntries)
      if (entry.name == name)
        return entry.evaluate;
    return nullptr;
  }

private:
  static ValueKind kindOf(Operands operands, size_t index) {
    return index < operands.size() ? Access::kind(operands[index]) : ValueKind::None;
  }
  static Status wrong(std::string_view operation, const std::string &why) {
    return invalidArgument(std::string(operation) + ": " + why);
  }
  static Status expect(Operands operands, size_t index, ValueKind kind,
                       std::string_view operation) {
    if (kindOf(operands, index) == kind)
      return {};
    return wrong(operation, "operand " + std::to_string(index) +
                                (kind == ValueKind::Tensor ? " is no tensor"
                                 : kind == ValueKind::Map  ? " is no map"
                                                           : " is no sequence"));
  }

  /// `otherwise` where the operand is absent.
  static Result<int64_t> position(Operands operands, size_t index, int64_t limit, int64_t otherwise,
                                  std::string_view operation) {
    if (kindOf(operands, index) == ValueKind::None)
      return otherwise;
    if (Status status = expect(operands, index, ValueKind::Tensor, operation); !status.ok())
      return status;
    auto found = sequencePosition(Access::tensor(operands[index]),
                                  int64_t(Access::elements(operands[0]).size()), limit);
    return found ? found : found.status().within(operation);
  }

  static Result<Value> construct(Operands operands, const Attributes &) {
    for (size_t i = 0; i < operands.size(); ++i)
      if (Status status = expect(operands, i, ValueKind::Tensor, "sequence_construct");
          !status.ok())
        return status;
    return Access::ofElements({operands.begin(), operands.end()});
  }

  static Result<Value> at(Operands operands, const Attributes &) {
    if (Status status = expect(operands, 0, ValueKind::Sequence, "sequence_at"); !status.ok())
      return status;
    const auto &elements = Access::elements(operands[0]);
    auto index = position(operands, 1, int64_t(elements.size()), -1, "sequence_at");
    if (!index)
      return index.status();
    if (*index < 0)
      return wrong("sequence_at", "no position was given");
    return elements[size_t(*index)];
  }

  static Result<Value> insert(Operands operands, const Attributes &) {
    if (Status status = expect(operands, 0, ValueKind::Sequence, "sequence_insert"); !status.ok())
      return status;
    if (Status status = expect(operands, 1, ValueKind::Tensor, "sequence_insert"); !status.ok())
      return status;
    auto given = Access::elements(operands[0]);
    std::vector<Value> elements(given.begin(), given.end());
    int64_t length = int64_t(elements.size());
    auto index = position(operands, 2, length + 1, length, "sequence_insert");
    if (!index)
      return index.status();
    elements.insert(elements.begin() + *index, operands[1]);
    return Access::ofElements(std::move(elements));
  }

  static Result<Value> erase(Operands operands, const Attributes &) {
    if (Status status = expect(operands, 0, ValueKind::Sequence, "sequence_erase"); !status.ok())
      return status;
    auto given = Access::elements(operands[0]);
    std::vector<Value> elements(given.begin(), given.end());
    int64_t length = int64_t(elements.size());
    auto index = position(operands, 1, length, length - 1, "sequence_erase");
    if (!index)
      return index.status();
    if (*index < 0)
      return wrong("sequence_erase", "the sequence is empty");
    elements.erase(elements.begin() + *index);
    return Access::ofElements(std::move(elements));
  }

  static Result<Value> scalar(DataType type, int64_t value) {
    HostTensor tensor(type, {});
    tensor.setInt(0, value);
    return Access::ofTensor(std::move(tensor));
  }

  static Result<Value> length(Operands operands, const Attributes &) {
    if (Status status = expect(operands, 0, ValueKind::Sequence, "sequence_length"); !status.ok())
      return status;
    return scalar(DataType::I64, int64_t(Access::elements(operands[0]).size()));
  }

  static Result<Value> split(Operands operands, const Attributes &attributes) {
    if (Status status = expect(operands, 0, ValueKind::Tensor, "split_to_sequence"); !status.ok())
      return status;
    HostTensor lengths;
    bool given = kindOf(operands, 1) != ValueKind::None;
    if (given) {
      if (Status status = expect(operands, 1, ValueKind::Tensor, "split_to_sequence"); !status.ok())
        return status;
      lengths = Access::tensor(operands[1]);
    }
    auto parts =
        splitToTensors(Access::tensor(operands[0]), given ? &lengths : nullptr, attributes);
    if (!parts)
      return parts.status().within("split_to_sequence");
    std::vector<Value> elements;
    for (HostTensor &part : *parts) {
      auto element = Access::ofTensor(std::move(part));
      if (!element)
        return element;
      elements.push_back(std::move(*element));
    }
    return Access::ofElements(std::move(elements));
  }

  static Result<Value> concat(Operands operands, const Attributes &attributes) {
    if (Status status = expect(operands, 0, ValueKind::Sequence, "concat_from_sequence");
        !status.ok())
      return status;
    std::vector<HostTensor> elements;
    for (const Value &element : Access::elements(operands[0]))
      elements.push_back(Access::tensor(element));
    auto joined = concatTensors(std::move(elements), attributes);
    return joined ? Access::ofTensor(std::move(*joined))
                  : joined.status().within("concat_from_sequence");
  }

  static Result<Value> zip(Operands operands, const Attributes &) {
    for (size_t i : {0, 1})
      if (Status status = expect(operands, i, ValueKind::Tensor, "zip_map"); !status.ok())
        return status;
    auto zipped = zipRows(Access::tensor(operands[0]), Access::tensor(operands[1]));
    if (!zipped)
      return zipped.status().within("zip_map");
    auto keys = Access::ofTensor(zipped->keys);
    if (!keys)
      return keys;
    std::vector<Value> maps;
    for (int64_t i = 0; i < zipped->rows(); ++i) {
      auto values = Access::ofTensor(zipped->row(i));
      if (!values)
        return values;
      maps.push_back(Access::ofMap(*keys, std::move(*values)));
    }
    return Access::ofElements(std::move(maps));
  }

  static Result<Value> mapKeys(Operands operands, const Attributes &attributes) {
    if (Status status = expect(operands, 0, ValueKind::Map, "map_keys"); !status.ok())
      return status;
    bool areStrings = attributes.integer("strings") != 0;
    const auto &keys = Access::elements(operands[0])[0];
    if (Access::tensor(keys).size() == 0)
      return Access::ofTensor(areStrings ? HostTensor::ofStrings({0}, {})
                                         : HostTensor(DataType::I64, {0}));
    return keys;
  }

  static Result<Value> mapValues(Operands operands, const Attributes &) {
    if (Status status = expect(operands, 0, ValueKind::Map, "map_values"); !status.ok())
      return status;
    return Access::elements(operands[0])[1];
  }

  static Result<Value> itself(Operands operands, const Attributes &) {
    return kindOf(operands, 0) == ValueKind::None ? Access::none() : operands[0];
  }

  static Result<Value> nothing(Operands, const Attributes &) { return Access::none(); }

  static Result<Value> hasElement(Operands operands, const Attributes &) {
    return scalar(DataType::Bool, kindOf(operands, 0) != ValueKind::None);
  }

  static Result<Value> getElement(Operands operands, const Attributes &) {
    if (kindOf(operands, 0) == ValueKind::None)
      return wrong("optional_get_element", "the optional value is none");
    return operands[0];
  }

  static Result<Value> zeros(Operands operands, const Attributes &attributes) {
    if (kindOf(operands, 0) == ValueKind::None)
      return Access::none();
    const Value &value = operands[0];
    if (Access::kind(value) == ValueKind::Tensor) {
      auto zero = zerosOf(Access::tensor(value));
      return zero ? Access::ofTensor(std::move(*zero)) : zero.status().within("sequence_zeros");
    }
    if (Access::kind(value) == ValueKind::Map)
      return wrong("sequence_zeros", "its operand is a map");
    std::vector<Value> elements;
    for (const Value &element : Access::elements(value)) {
      auto zero = zeros({&element, 1}, attributes);
      if (!zero)
        return zero;
      elements.push_back(std::move(*zero));
    }
    return Access::ofElements(std::move(elements));
  }

  static Result<Value> sum(Operands operands, const Attributes &attributes) {
    for (size_t i : {0, 1})
      if (kindOf(operands, i) == ValueKind::None)
        return kindOf(operands, 1 - i) == ValueKind::None ? Access::none() : operands[1 - i];
    const Value &a = operands[0], &b = operands[1];
    if (Access::kind(a) != Access::kind(b) || Access::kind(a) == ValueKind::Map)
      return wrong("sequence_sum", "its operands are no two tensors or sequences");
    if (Access::kind(a) == ValueKind::Tensor) {
      auto total = sumOf(Access::tensor(a), Access::tensor(b));
      return total ? Access::ofTensor(std::move(*total)) : total.status().within("sequence_sum");
    }
    const auto &left = Access::elements(a);
    const auto &right = Access::elements(b);
    if (left.size() != right.size())
      return wrong("sequence_sum", "the sequences have " + std::to_string(left.size()) + " and " +
                                       std::to_string(right.size()) + " elements");
    std::vector<Value> elements;
    for (size_t i = 0; i < left.size(); ++i) {
      Value pair[] = {left[i], right[i]};
      auto total = sum(pair, attributes);
      if (!total)
        return total;
      elements.push_back(std::move(*total));
    }
    return Access::ofElements(std::move(elements));
  }

  static Result<Value> sizes(Operands operands, const Attributes &attributes) {
    if (Status status = expect(operands, 0, ValueKind::Sequence, "sequence_sizes"); !status.ok())
      return status;
    const auto &elements = Access::elements(operands[0]);
    HostTensor result(DataType::I64, {int64_t(elements.size())});
    for (size_t i = 0; i < elements.size(); ++i) {
      auto size = sizeAlong(Access::tensor(elements[i]), attributes);
      if (!size)
        return size.status().within("sequence_sizes");
      result.setInt(int64_t(i), *size);
    }
    return Access::ofTensor(std::move(result));
  }

  struct Entry {
    std::string_view name;
    Evaluator evaluate;
  };
  static constexpr Entry kEntries[] = {
      {"sequence_construct", construct},
      {"sequence_at", at},
      {"sequence_insert", insert},
      {"sequence_erase", erase},
      {"sequence_length", length},
      {"split_to_sequence", split},
      {"concat_from_sequence", concat},
      {"optional", itself},
      {"optional_none", nothing},
      {"optional_has_element", hasElement},
      {"optional_get_element", getElement},
      {"sequence_zeros", zeros},
      {"sequence_sum", sum},
      {"sequence_sizes", sizes},
      {"zip_map", zip},
      {"map_keys", mapKeys},
      {"map_values", mapValues},
  };
};

} // namespace tensmith::reference
