// Looks up the standard's schemas in the file that the build extracts; see Schemas.h.
#include "frontends/onnx/Schemas.h"

#include <algorithm>
#include <cstdlib>
#include <map>

extern "C" const unsigned char tensmithOnnxSchemas[];
extern "C" const unsigned char tensmithOnnxSchemasEnd[];

namespace tensmith::onnx_import {
namespace {

struct Catalogue {
  onnx::ModelProto file;
  std::map<std::pair<std::string, std::string>, std::map<int64_t, const onnx::FunctionProto *>>
      schemas;
  std::map<std::string, int64_t, std::less<>> newest;

  Catalogue() {
    file.ParseFromArray(tensmithOnnxSchemas, int(tensmithOnnxSchemasEnd - tensmithOnnxSchemas));
    for (const onnx::FunctionProto &schema : file.functions())
      schemas[{schema.domain(), schema.name()}][sinceVersion(schema)] = &schema;
    for (const auto &import : file.opset_import())
      newest[import.domain()] = import.version();
  }
};

const Catalogue &catalogue() {
  static const Catalogue instance;
  return instance;
}

Parameter parameter(const onnx::FunctionProto &schema, int number) {
  const auto &entry = schema.metadata_props(number);
  return {entry.key(), std::strtoull(entry.value().c_str(), nullptr, 10)};
}

} // namespace

Parameter inputParameter(const onnx::FunctionProto &schema, int number) {
  return parameter(schema, std::min(number, schema.input_size() - 1));
}

Parameter outputParameter(const onnx::FunctionProto &schema, int number) {
  return parameter(schema, schema.input_size() + std::min(number, schema.output_size() - 1));
}

std::string_view canonicalDomain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

int64_t sinceVersion(const onnx::FunctionProto &schema) {
  return std::strtoll(schema.overload().c_str(), nullptr, 10);
}

const onnx::FunctionProto *findSchema(std::string_view domain, std::string_view name,
                                      int64_t opset) {
  const auto &schemas = catalogue().schemas;
  auto it = schemas.find({std::string(canonicalDomain(domain)), std::string(name)});
  if (it == schemas.end())
    return nullptr;
  auto next = it->second.upper_bound(opset);
  return next == it->second.begin() ? nullptr : std::prev(next)->second;
}

int64_t newestOpset(std::string_view domain) {
  auto it = catalogue().newest.find(canonicalDomain(domain));
  return it == catalogue().newest.end() ? 0 : it->second;
}

} // namespace tensmith::onnx_import
