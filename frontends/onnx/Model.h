// A model's file in memory, and its parsed form.
#pragma once

#include "frontends/onnx/ExternalData.h"
#include "frontends/onnx/Import.h"
#include "frontends/onnx/TensorData.h"
#include "frontends/onnx/WireFormat.h"

#include <deque>

namespace tensmith::onnx_import {

/// Lives as long as the last tensor that borrows from it.
struct Model {
  std::string name; ///< for errors and locations: the path, usually
  onnx::ModelProto proto;
  MappedFile file;
  /// Of the main graph's initialisers, where their bytes were left in `file`.
  std::vector<RawData> rawData;
  /// Bodies of functions with their attributes filled in; a deque, since nodes refer to them.
  std::deque<onnx::FunctionProto> instances;
  std::string folder;
  bool hasFolder = false;
};

Result<std::shared_ptr<Model>> readModel(const std::string &path, const ImportOptions &options);
Result<std::shared_ptr<Model>> parseModel(std::span<const std::byte> bytes, const std::string &name,
                                          const ImportOptions &options);

/// "node 'conv1' (Conv)"; a node without a name is called by its first output.
std::string describe(const onnx::NodeProto &node);
std::string displayName(const onnx::NodeProto &node);

} // namespace tensmith::onnx_import
