// What the ONNX standard says of each operator in each opset: types, defaults, and bodies of those
// that it defines by others.
#pragma once

#include "base/DataType.h"
#include "onnx-ml.pb.h"

#include <string>
#include <string_view>

namespace tensmith::onnx_import {

/// "" for the standard operators' domain, however it is written ("ai.onnx").
std::string_view canonicalDomain(std::string_view domain);

/// The schema of an operator as of an opset: the newest that is not newer. Null where there is
/// none. See generate_schemas.py for what its fields hold.
const onnx::FunctionProto *findSchema(std::string_view domain, std::string_view name,
                                      int64_t opset);

/// What a formal parameter can be: parameters of one variable ("T") are of one type.
struct Parameter {
  std::string_view variable;
  uint64_t types; // a bit for each element type of tensors, by its number

  bool takes(DataType type) const { return types >> unsigned(type) & 1; }
};

/// Of a schema; a variadic one is each operand from its place on.
Parameter inputParameter(const onnx::FunctionProto &schema, int number);
Parameter outputParameter(const onnx::FunctionProto &schema, int number);

/// The opset from which the schema is valid.
int64_t sinceVersion(const onnx::FunctionProto &schema);

/// The newest opset of a domain; 0 of one that the standard does not have.
int64_t newestOpset(std::string_view domain);

} // namespace tensmith::onnx_import
