// A decoder's config.json, as Hugging Face's models have it, in the words of a GGUF file: one
// description of decoders serves both (Architecture.h).
#pragma once

#include "files/Gguf.h"
#include "generation/tokenizer/JsonPart.h"

namespace tensmith::generation {

/// Which products of a layer have them.
struct HubBiases {
  bool ofInputs = false; // queries, keys and values
  bool ofOutput = false; // of attention
  bool ofFeedForward = false;
};

struct HubConfig {
  std::string family; // "model_type"
  std::map<std::string, GgufValue> metadata;
  /// What frequencies of the rotation are divided by, f32, by the names of a GGUF file's tensors.
  std::map<std::string, std::vector<float>> frequencyFactors;
  bool addsOneToNorms = false; // they are kept less 1
  bool normsBothSides = false; // of a block, which decides what "post_attention_layernorm" is
  bool normsHeads = false;
  bool joinsMatrices = false; // queries, keys and values are one, and so are gate and the other
  bool isTied = false;        // logits are products with embeddings
  HubBiases biases;
  int64_t layers = 0;
};

/// Throws Failure where it is of a family that is not known, or asks for what is not read.
HubConfig hubConfigOf(const JsonPart &config);

} // namespace tensmith::generation
