// Scalars that registers of procedures hold by themselves, and what is computed with them.
//
// A program counts, compares and indexes with tensors of rank 0. As tensors they would cost an
// allocation and a kernel's call each; here they are a word and an indirect call. Every operator
// has the meaning of the reference evaluation, whose functions it is made of.
#pragma once

#include "base/DataType.h"
#include "runtime/plan_generated.h"

#include <cstdint>

namespace tensmith::runtime {

/// The bits of one element; which member is good, its type says.
union Scalar {
  uint64_t bits;
  bool boolean;
  int64_t i64;
  float f32;
  double f64;
};

inline constexpr int kScalarTypes = 4;

DataType elementType(plan::ScalarType type);

using ScalarFunction = Scalar (*)(const Scalar *operands);

struct ScalarCode {
  ScalarFunction function = nullptr; // null: the operator does not take scalars of the type
  plan::ScalarType result = plan::ScalarType::Bool;
  uint8_t operands = 0;
};

/// What an operator does with scalars of a type. `word`: operator | type << 8, any number.
const ScalarCode &scalarCode(uint32_t word);

} // namespace tensmith::runtime
