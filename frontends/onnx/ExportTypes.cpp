// Types of operands and results against the schemas; see ExportTypes.h.
#include "frontends/onnx/ExportTypes.h"

#include "frontends/onnx/Export.h"
#include "frontends/onnx/Schemas.h"

#include <bit>
#include <map>

namespace tensmith::onnx_export {
namespace {

using namespace onnx_import;

/// The types of a node's variables.
class Variables {
public:
  /// False where the value's type is none of the parameter's, or the variable has another.
  bool take(const Parameter &parameter, DataType type) {
    return type == DataType::Undefined ||
           (parameter.takes(type) &&
            types_.try_emplace(parameter.variable, type).first->second == type);
  }
  /// Undefined where the operands don't tell it.
  DataType of(const Parameter &parameter) const {
    if (std::has_single_bit(parameter.types))
      return DataType(std::countr_zero(parameter.types));
    auto found = types_.find(parameter.variable);
    return found == types_.end() ? DataType::Undefined : found->second;
  }

private:
  std::map<std::string_view, DataType> types_;
};

std::string fault(DataType type, const onnx::NodeProto &node) {
  return "is of " + std::string(name(type)) + ", which ONNX's " + node.op_type() + " of opset " +
         std::to_string(kExportedOpset) + " has not there; cast it";
}

} // namespace

std::string ValueTypes::check(const onnx::NodeProto &node) {
  const auto &schema = *onnx_import::findSchema("", node.op_type(), kExportedOpset);
  Variables variables;
  for (int i = 0; i < node.input_size(); ++i)
    if (DataType type = types_.lookup(node.input(i));
        !variables.take(inputParameter(schema, i), type))
      return fault(type, node);
  for (int i = 0; i < node.output_size(); ++i) {
    Parameter parameter = outputParameter(schema, i);
    DataType &type = types_[node.output(i)];
    if (type == DataType::Undefined)
      type = variables.of(parameter);
    if (!variables.take(parameter, type))
      return fault(type, node);
  }
  return {};
}

} // namespace tensmith::onnx_export
