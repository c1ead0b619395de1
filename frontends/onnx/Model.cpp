// Checks a model's bytes and parses them; see Model.h.
#include "frontends/onnx/Model.h"

#include <google/protobuf/io/coded_stream.h>

#include <limits>

namespace tensmith::onnx_import {
namespace {

/// Smaller weights are parsed with the rest: leaving them in the file would save nothing.
constexpr size_t kLeastRawData = 4096;

// Messages inside one another for each subgraph (node, attribute, graph), and for what is in one.
constexpr int kMessagesPerSubgraph = 3, kMessagesInGraph = 32;

Status invalid(std::string message) { return {StatusCode::InvalidModel, std::move(message)}; }

Status parse(std::string_view bytes, int maxNesting, onnx::ModelProto &proto) {
  if (bytes.size() > size_t(std::numeric_limits<int32_t>::max()))
    return {StatusCode::ResourceExhausted,
            "has more than 2 GiB beside its weights; store them as external data"};
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()),
                                                int(bytes.size()));
  stream.SetRecursionLimit(kMessagesPerSubgraph * maxNesting + kMessagesInGraph);
  if (!proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return invalid("is no ONNX model: its fields are not those of onnx.proto, or types in it are "
                   "nested too deep");
  if (!proto.has_graph())
    return invalid("is no ONNX model: it has no graph");
  return {};
}

Status check(std::span<const std::byte> bytes, const ImportOptions &options) {
  if (bytes.empty())
    return invalid("is empty");
  if (int64_t(bytes.size()) > options.maxModelBytes)
    return {StatusCode::ResourceExhausted, "has " + std::to_string(bytes.size()) +
                                               " bytes, more than the limit of " +
                                               std::to_string(options.maxModelBytes)};
  return checkWireFormat(bytes, options.maxNesting);
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

} // namespace

Result<std::shared_ptr<Model>> readModel(const std::string &path, const ImportOptions &options) {
  auto file = mapFile(path, options.maxModelBytes);
  if (!file.ok())
    return file.status().within(path);
  if (Status status = check(file->bytes, options); !status.ok())
    return status.within(path);
  auto model = std::make_shared<Model>();
  model->name = path;
  model->folder = folderOf(path);
  model->hasFolder = true;
  model->file = *file;
  std::string rest = withoutRawData(file->bytes, kLeastRawData, model->rawData);
  if (Status status = parse(rest, options.maxNesting, model->proto); !status.ok())
    return status.within(path);
  return model;
}

Result<std::shared_ptr<Model>> parseModel(std::span<const std::byte> bytes, const std::string &name,
                                          const ImportOptions &options) {
  if (Status status = check(bytes, options); !status.ok())
    return status.within(name);
  auto model = std::make_shared<Model>();
  model->name = name;
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (Status status = parse(text, options.maxNesting, model->proto); !status.ok())
    return status.within(name);
  return model;
}

std::string displayName(const onnx::NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return output;
  return "(unnamed)";
}

std::string describe(const onnx::NodeProto &node) {
  return "node '" + displayName(node) + "' (" + node.op_type() + ")";
}

} // namespace tensmith::onnx_import
