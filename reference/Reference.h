// The reference evaluator: what every operator means, in slow, plain C++ without MLIR.
//
// It is the oracle of the tests, folds constants in the compiler, and is what the runtime executes
// for an operator that has no kernel (data-dependent results, strings). Operators are found by the
// name that they have in the graph dialect ("reduce_sum"), those of other dialects by their whole
// name ("example.soft_threshold"); operands, attributes and their order are those of the operator's
// record in compiler/graph/*.td. An absent optional operand is a tensor of type Undefined.
//
// Accuracy: floats are computed in double and rounded once at the end of the operator, unless the
// specification asks for an order; integers exactly, wrapping at the width of their type.
#pragma once

#include "base/Attributes.h"
#include "base/Table.h"

namespace tensmith::reference {

/// What the caller knows of a result before it is computed. Operators whose result is determined by
/// their operands alone ignore the shape; `reshape`, `broadcast`, `slice` and their like need it.
struct ResultType {
  DataType type = DataType::Undefined;
  std::optional<Shape> shape;
  /// Memory that is set aside for the result, whose size the caller knows a bound of.
  std::span<std::byte> memory = {};
};

struct Invocation {
  std::string_view name;
  const Attributes &attributes;
  std::span<const HostTensor> operands;
  std::span<const ResultType> results;

  bool present(size_t operand) const {
    return operand < operands.size() && operands[operand].type() != DataType::Undefined;
  }
};

using Evaluator = Result<std::vector<HostTensor>> (*)(const Invocation &);

/// One operator of a family's table.
struct Entry {
  std::string_view name;
  Evaluator evaluate;
};

/// The families' tables, each defined in the file that it is named after.
std::span<const Entry> arithmeticEntries();
std::span<const Entry> functionEntries();
std::span<const Entry> comparisonEntries();
std::span<const Entry> castEntries();
std::span<const Entry> reductionEntries();
std::span<const Entry> movementEntries();
std::span<const Entry> dynamicMovementEntries();
std::span<const Entry> gatherEntries();
std::span<const Entry> scatterEntries();
std::span<const Entry> creationEntries();
std::span<const Entry> contractionEntries();
std::span<const Entry> convolutionEntries();
std::span<const Entry> winogradEntries();
std::span<const Entry> fourierEntries();
std::span<const Entry> resamplingEntries();
std::span<const Entry> normalizationEntries();
std::span<const Entry> recurrentEntries();
std::span<const Entry> quantizationEntries();
std::span<const Entry> signalEntries();
std::span<const Entry> selectionEntries();
std::span<const Entry> textEntries();
std::span<const Entry> comprehensionEntries();

/// All of them, by operator.
Table<Entry> &evaluators();
/// The evaluator of the operator with that name, or null.
Evaluator find(std::string_view name);

/// Evaluates one operator. Errors: Unsupported for an unknown operator or type, InvalidArgument
/// where the operands contradict it (an index out of range), ResourceExhausted where memory can't
/// be had.
Result<std::vector<HostTensor>> evaluate(const Invocation &invocation);

} // namespace tensmith::reference
