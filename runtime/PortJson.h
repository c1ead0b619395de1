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
};

/// {"name", "kind", "type", "dims"}; dims is null where the rank is open.
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
  json.close('}');
}

} // namespace tensmith::runtime
