// How an input or output is described as JSON: the same for a model and for a compiled module.
#pragma once

#include "base/DataType.h"
#include "runtime/Json.h"
#include "runtime/plan_generated.h"

#include <vector>

namespace tensmith::runtime {

struct PortText {
  std::string_view name;
  plan::ValueKind kind; // of a sequence or optional, `type` is its elements'
  DataType type;
  bool ranked;
  std::vector<std::string_view> dims; // as people write them: "batch", "3", "2*seq"
  std::string_view object = {};       // the type of a value of a data type
};

/// {"name", "kind", "type", "dims"}; dims is null where the rank is open. Values of data types also
/// have "object", their type.
inline void writePort(JsonWriter &json, const PortText &port) {
  json.open('{').key("name").value(port.name);
  json.key("kind").value(plan::EnumNameValueKind(port.kind));
  json.key("type").value(name(port.type)).key("dims");
  if (port.ranked) {
    json.open('[');
    for (std::string_view dim : port.dims)
      json.value(dim);
    json.close(']');
  } else {
    json.null();
  }
  if (!port.object.empty())
    json.key("object").value(port.object);
  json.close('}');
}

} // namespace tensmith::runtime
