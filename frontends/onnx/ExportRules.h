// Which ONNX operator a graph operator is: one row each.
//
// Most have the same operands, and attributes of the same names or of those that the row gives; the
// schema says which of them the opset has. What is else is written by a rule.
#pragma once

#include "frontends/onnx/NodeExport.h"

namespace tensmith::onnx_export {

/// Adds the nodes and gives their values to the operator's results (NodeExport::give).
using Rule = Status (*)(NodeExport &node);

struct Renamed {
  std::string_view graph, onnx; ///< of an attribute; nowhere in ONNX where `onnx` is empty
};

struct Record {
  std::string_view graph; ///< "graph.conv"
  std::string_view onnx;  ///< "Conv"; empty where the rule adds several nodes
  std::vector<Renamed> renamed = {};
  Rule rule = nullptr; ///< null: one node of that name
};

// The families, each in its file. Those of a signature that the importer has in one row, as all
// arithmetic, are taken from there (Operators.h).
std::span<const Record> directRecords();
std::span<const Record> movementRecords();
std::span<const Record> computedRecords();

/// Null where there is none, or the opset has not its operator.
const Record *findRecord(llvm::StringRef graphName);

/// One node with the operator's operands and attributes.
Status exportDirectly(NodeExport &node, const Record &record);

} // namespace tensmith::onnx_export
