// The table of all records, and what a node's attributes are; see ExportRules.h.
#include "frontends/onnx/ExportRules.h"

#include "frontends/onnx/Export.h"
#include "frontends/onnx/Operators.h"
#include "frontends/onnx/Schemas.h"

#include <algorithm>

namespace tensmith::onnx_export {
namespace {

using onnx_import::findSchema;

std::map<std::string_view, Record> allRecords() {
  std::map<std::string_view, Record> records;
  for (const onnx_import::Operator &op : onnx_import::elementwiseOperators())
    if (!op.graph.empty())
      records.emplace(op.graph, Record{op.graph, op.name});
  for (auto family : {directRecords(), movementRecords(), computedRecords()})
    for (const Record &record : family)
      records.emplace(record.graph, record);
  std::erase_if(records, [](const auto &entry) {
    const Record &record = entry.second;
    return !record.onnx.empty() && !findSchema("", record.onnx, kExportedOpset);
  });
  return records;
}

bool has(const onnx::FunctionProto &schema, const std::string &attribute) {
  auto isIt = [&](const onnx::AttributeProto &one) { return one.name() == attribute; };
  return std::ranges::find(schema.attribute(), attribute) != schema.attribute().end() ||
         std::ranges::any_of(schema.attribute_proto(), isIt);
}

/// What changes nothing where the standard doesn't have it: saturated or not, the standard's
/// layout.
bool isUnset(const Attribute &value) {
  const auto *number = std::get_if<int64_t>(&value);
  const auto *text = std::get_if<std::string>(&value);
  return (number && *number == 0) || (text && *text == std::string_view(graph::kChannelsFirst));
}

} // namespace

const Record *findRecord(llvm::StringRef graphName) {
  static const std::map<std::string_view, Record> records = allRecords();
  auto found = records.find(std::string_view(graphName));
  return found == records.end() ? nullptr : &found->second;
}

Status exportDirectly(NodeExport &n, const Record &record) {
  const onnx::FunctionProto &schema = *findSchema("", record.onnx, kExportedOpset);
  Fields fields;
  for (const auto &[name, value] : n.attributes.all()) {
    std::string called = name;
    for (const Renamed &renamed : record.renamed)
      if (renamed.graph == name)
        called = renamed.onnx;
    if (called.empty())
      continue;
    if (has(schema, called))
      fields.push_back({called, value});
    else if (!isUnset(value))
      return n.error("has the attribute '" + name + "', which ONNX's " + std::string(record.onnx) +
                     " doesn't have");
  }
  return n.giveNode(record.onnx, n.inputs(), fields);
}

} // namespace tensmith::onnx_export
