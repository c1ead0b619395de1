// The graph dialect's operators, by the names of their records: generated from the records.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tensmith::text {

enum class OperandKind : uint8_t { Tensor, Optional, Variadic };
enum class AttributeKind : uint8_t { Integer, Boolean, Real, Text, Type, Integers, Reals, Texts };

struct OperatorInfo {
  struct Operand {
    std::string_view name;
    OperandKind kind;
  };
  struct Attribute {
    std::string_view name;
    AttributeKind kind;
    bool required;
  };
  std::string_view name;
  int results;
  std::vector<Operand> operands;
  std::vector<Attribute> attributes;
  std::string_view summary;
};

/// Null where the language has no such operator.
const OperatorInfo *findOperator(std::string_view name);
const std::vector<OperatorInfo> &allOperators();

} // namespace tensmith::text
