// Operators by the names that files of models have for them, where operands, results and attributes
// are the operator's own, one after the other: operators of a domain of its own in ONNX.
#pragma once

#include "base/Table.h"

namespace tensmith::graph {

struct ModelName {
  std::string_view name;  // "DOMAIN:TYPE" of an ONNX node
  std::string_view graph; // the operator: "example.soft_threshold"
};

Table<ModelName> &modelNames();

} // namespace tensmith::graph
