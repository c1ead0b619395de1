// Replaces messages in the parsed model and writes it out again: protobuf keeps the fields that it
// does not know, so nothing of the rest is lost.
#include "frontends/onnx/Replace.h"

#include "frontends/onnx/EvaluationForm.h"
#include "frontends/onnx/Model.h"

#include <limits>

namespace tensmith {
namespace {

using namespace onnx_import;

Status invalid(const std::string &name, const std::string &what) {
  return invalidArgument("initialiser '" + name + "' " + what);
}

/// Which bytes the tensor has, in place of all that it had.
void setBytes(onnx::TensorProto &proto, const HostTensor &value) {
  proto.clear_float_data();
  proto.clear_int32_data();
  proto.clear_string_data();
  proto.clear_int64_data();
  proto.clear_double_data();
  proto.clear_uint64_data();
  proto.clear_external_data();
  proto.clear_data_location();
  proto.set_raw_data(value.data(), size_t(value.bytes()));
}

Status replace(onnx::TensorProto &proto, const HostTensor &value) {
  auto type = tensorType(proto);
  if (!type.ok())
    return type.status().within("initialiser '" + proto.name() + "'");
  if (type->first != value.type() || type->second != value.shape())
    return invalid(proto.name(), "is " + std::string(name(type->first)) + " " +
                                     toString(type->second) + ", but its new value is " +
                                     std::string(name(value.type())) + " " +
                                     toString(value.shape()));
  if (info(value.type()).bits < 8 * byteSize(value.type()) &&
      info(value.type()).kind != TypeClass::Bool)
    return unsupported("initialiser '" + proto.name() + "' has packed elements");
  setBytes(proto, value);
  return {};
}

/// A tensor whose bytes lie in another file has them itself.
Status embed(onnx::TensorProto &proto, const TensorSource &source) {
  if (proto.data_location() != onnx::TensorProto::EXTERNAL)
    return {};
  auto value = readTensor(proto, source);
  Status status = value.ok() ? replace(proto, *value) : value.status();
  return status.within("initialiser '" + proto.name() + "'");
}

Status replaceAll(Model &model, const std::map<std::string, HostTensor> &values) {
  ExternalFiles files;
  TensorSource source = {model.folder, model.hasFolder, nullptr, &files};
  std::map<std::string, HostTensor> left = values;
  for (onnx::TensorProto &proto : *model.proto.mutable_graph()->mutable_initializer()) {
    auto found = left.find(proto.name());
    Status status = found == left.end() ? embed(proto, source) : replace(proto, found->second);
    if (!status.ok())
      return status;
    if (found != left.end())
      left.erase(found);
  }
  return left.empty() ? Status() : invalid(left.begin()->first, "is not one of the model's");
}

} // namespace

Result<std::string> replaceInitialisers(const std::string &path,
                                        const std::map<std::string, HostTensor> &values) {
  ImportOptions options;
  auto file = mapFile(path, options.maxModelBytes);
  if (!file.ok())
    return file.status().within(path);
  auto model = parseModel(file->bytes, path, options);
  if (!model.ok())
    return model.status();
  size_t slash = path.rfind('/');
  (*model)->folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  (*model)->hasFolder = true;
  if (Status status = replaceAll(**model, values); !status.ok())
    return status.within(path);
  evaluationForm((*model)->proto);
  std::string bytes;
  if ((*model)->proto.ByteSizeLong() > size_t(std::numeric_limits<int32_t>::max()) ||
      !(*model)->proto.SerializeToString(&bytes))
    return Status(StatusCode::ResourceExhausted,
                  path + ": has more than 2 GiB with its weights, which no ONNX file can hold");
  return bytes;
}

} // namespace tensmith
