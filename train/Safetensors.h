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
  std::shared_ptr<const void> owner; // of the file's memory
  std::vector<NamedTensor> tensors;  // views of it
  Metadata metadata;
};
/// Throws Failure where the file is broken, also where its hash is another.
Safetensors readSafetensors(const std::filesystem::path &path);
/// The same of a mapped file: what nobody reads of its tensors stays on the disk, and no hash is
/// looked at.
Safetensors mapSafetensors(const std::filesystem::path &path);

} // namespace tensmith::train
