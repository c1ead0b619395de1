// The operators of eager tensors: what the array API standard (2024.12) and NumPy compute, each as
// a row with its evaluation, the rule for its results, and the kernel that does it where one is
// worth compiling.
//
// An evaluation is one of the reference's (reference/Reference.h), or one of `evaluators/` in the
// same form for what the graph has no operator for: complex numbers, sorting, linear algebra.
// Operands are of one element type, except where a row says otherwise; who calls has promoted them.
#pragma once

#include "eager/Array.h"
#include "reference/Reference.h"

namespace tensmith::eager {

using ResultTypes = Result<std::vector<reference::ResultType>>;

/// How an operator becomes a graph, with open sizes.
enum class KernelForm : uint8_t { None, Elementwise, Reduction, Contraction };

struct Operator {
  std::string_view name;
  reference::Evaluator evaluate = nullptr;        // of booleans, integers and floats; may be null
  reference::Evaluator evaluateComplex = nullptr; // of complex numbers; may be null
  /// The results' types and shapes; null where only the evaluation tells.
  ResultTypes (*infer)(const Attributes &, std::span<const Array>) = nullptr;
  std::string_view graph = {}; // what it is called in the graph dialect
  KernelForm form = KernelForm::None;
  /// Whether a kernel gives the evaluation's bits. Where it doesn't, a kernel is waited for, so
  /// that results do not depend on when it is there.
  bool exact = false;
};

const Operator *findOperator(std::string_view name);

// Evaluations of `evaluators/`, each file's by the operator's name; null where it has none.
reference::Evaluator arrangingEvaluator(std::string_view name);
reference::Evaluator complexEvaluator(std::string_view name);
reference::Evaluator fourierEvaluator(std::string_view name);
reference::Evaluator linearEvaluator(std::string_view name);
reference::Evaluator realEvaluator(std::string_view name);

/// The type of the standard's promotion, continued to mixed kinds as NumPy does; nothing where
/// there is none (strings).
std::optional<DataType> promotedType(DataType a, DataType b);
inline bool isComplex(DataType type) { return type == DataType::C64 || type == DataType::C128; }
/// Of a complex type's parts; a real type itself.
inline DataType realType(DataType type) {
  return type == DataType::C64 ? DataType::F32 : type == DataType::C128 ? DataType::F64 : type;
}

} // namespace tensmith::eager
