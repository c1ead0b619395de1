// A decoder's config.json, as Hugging Face's models have it, in the words of a GGUF file: one
// description of decoders serves both (Architecture.h).
#pragma once

#include "files/Gguf.h"
#include "generation/tokenizer/JsonPart.h"

namespace tensmith::generation {

struct HubConfig {
  std::map<std::string, GgufValue> metadata;
  /// What layers of the rotation are divided by, f32; empty: nothing.
  std::vector<float> frequencyFactors;
  bool addsOneToNorms = false; // they are kept less 1
  bool normsBothSides = false; // of a block, which decides what "post_attention_layernorm" is
};

/// Throws Failure where it is of a family that is not known, or asks for what is not read.
HubConfig hubConfigOf(const JsonPart &config);

/// The name in GGUF's words; "" for what is not of the decoder, or no tensor of its own. Throws
/// Failure where the name is not known.
std::string tensorNameOf(const std::string &name, const HubConfig &config, const std::string &file);

} // namespace tensmith::generation
