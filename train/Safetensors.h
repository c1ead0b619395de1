// The safetensors format (github.com/huggingface/safetensors): the length of a JSON header in eight
// bytes, the header, the tensors' bytes one after the other.
#pragma once

#include "base/HostTensor.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tensmith::train {

struct NamedTensor {
  std::string name;
  HostTensor tensor; // a view, where it is written
};

using Metadata = std::map<std::string, std::string>;

/// Written atomically and durably; metadata gets "tensmith.hash", of the tensors' bytes.
void writeSafetensors(const std::filesystem::path &path, const std::vector<NamedTensor> &tensors,
                      Metadata metadata);

struct Safetensors {
  std::vector<NamedTensor> tensors; // of the file's memory
  Metadata metadata;
};
/// Throws Failure where the file is broken, also where its hash is another.
Safetensors readSafetensors(const std::filesystem::path &path);

} // namespace tensmith::train
