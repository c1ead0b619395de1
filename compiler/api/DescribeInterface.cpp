// A model's declared inputs, outputs and metadata through the C API; see
// frontends/onnx/Interface.h.
#include <tensmith/compiler.h>

#include "compiler/api/Boundary.h"
#include "frontends/onnx/Interface.h"
#include "runtime/Json.h"

#include <cstdlib>
#include <cstring>

using namespace tensmith;

namespace {

void writeDim(runtime::JsonWriter &json, const std::string &dim) {
  if (dim.empty())
    json.null();
  else if (dim.find_first_not_of("0123456789") == std::string::npos)
    json.raw(dim);
  else
    json.value(dim);
}

void writePorts(runtime::JsonWriter &json, const std::vector<DeclaredPort> &ports) {
  json.open('[');
  for (const DeclaredPort &port : ports) {
    json.open('{').key("name").value(port.name);
    json.key("type").value(port.type);
    json.key("initialized").raw(port.initialized ? "true" : "false").key("shape");
    if (port.ranked) {
      json.open('[');
      for (const std::string &dim : port.dims)
        writeDim(json, dim);
      json.close(']');
    } else {
      json.null();
    }
    json.close('}');
  }
  json.close(']');
}

std::string described(const ModelInterface &model) {
  runtime::JsonWriter json;
  json.open('{').key("producer").value(model.producer);
  json.key("domain").value(model.domain).key("graph").value(model.graph);
  json.key("description").value(model.description);
  json.key("graph_description").value(model.graphDescription);
  json.key("version").value(model.version).key("metadata").open('{');
  for (const auto &[name, value] : model.metadata)
    json.key(name).value(value);
  json.close('}');
  writePorts(json.key("inputs"), model.inputs);
  writePorts(json.key("outputs"), model.outputs);
  return json.close('}').take();
}

} // namespace

ts_status *ts_describe_interface(const char *path, const void *bytes, size_t size, char **json) {
  return guarded([&]() -> Status {
    if (!path || !json)
      return missing(path ? "the result" : "the path");
    *json = nullptr;
    auto model = bytes ? interfaceOfBytes({static_cast<const std::byte *>(bytes), size}, path)
                       : interfaceOfFile(path);
    return model.ok() ? copyText(described(*model), json) : model.status();
  });
}
