// The tensors that a configuration's decoder has, as the families' classes in the library
// `transformers` name them. A folder has each of them and no others: what else lies in it would be
// left out, or change what the model computes, without a word.
#pragma once

#include "generation/folder/HubConfig.h"

#include <set>

namespace tensmith::generation {

class HubTensors {
public:
  explicit HubTensors(const HubConfig &config);

  /// The name in GGUF's words; "" for what the configuration says, too. Throws Failure, with the
  /// file, where the decoder has no such tensor.
  std::string take(const std::string &name, const std::string &file);
  /// Whether the decoder has it.
  bool has(const std::string &name) const { return names_.contains(name); }
  /// Throws Failure where one has not been taken.
  void checkAll(const std::string &file) const;

private:
  void add(const std::string &name, const std::string &ggufName, bool hasBias = false);
  void addLayer(const HubConfig &config, int64_t layer);
  [[noreturn]] void refuse(const std::string &file, const char *verb, const std::string &name,
                           const char *needs) const;

  std::string decoder_; // "a llama of 2 layers ..."
  std::map<std::string, std::string> names_;
  std::set<std::string> missing_;
};

} // namespace tensmith::generation
