// Names of tensors; see HubTensors.h.
#include "generation/folder/HubTensors.h"

#include "files/Failure.h"

#include <fmt/format.h>

namespace tensmith::generation {

HubTensors::HubTensors(const HubConfig &config)
    : decoder_(fmt::format("{} of {} layers with 'tie_word_embeddings' {}", config.family,
                           config.layers, config.isTied)) {
  add("model.embed_tokens", "token_embd");
  add("model.norm", "output_norm");
  add("lm_head", "output");
  if (config.isTied) // some folders have it nevertheless
    missing_.erase("lm_head.weight");
  for (int64_t layer = 0; layer < config.layers; ++layer)
    addLayer(config, layer);
}

void HubTensors::add(const std::string &name, const std::string &ggufName, bool hasBias) {
  for (const char *kind : {".weight", ".bias"}) {
    if (std::string_view(kind) == ".bias" && !hasBias)
      continue;
    names_.emplace(name + kind, ggufName + kind);
    missing_.insert(name + kind);
  }
}

void HubTensors::addLayer(const HubConfig &config, int64_t layer) {
  auto put = [&](const char *name, const char *ggufName, bool hasBias = false) {
    add(fmt::format("model.layers.{}.{}", layer, name), fmt::format("blk.{}.{}", layer, ggufName),
        hasBias);
  };
  const HubBiases &biases = config.biases;
  put("input_layernorm", "attn_norm");
  put("post_attention_layernorm", config.normsBothSides ? "post_attention_norm" : "ffn_norm");
  if (config.normsBothSides) {
    put("pre_feedforward_layernorm", "ffn_norm");
    put("post_feedforward_layernorm", "post_ffw_norm");
  }
  if (config.joinsMatrices) {
    put("self_attn.qkv_proj", "attn_qkv", biases.ofInputs);
    put("mlp.gate_up_proj", "ffn_up", biases.ofFeedForward); // the gate's rows, then the others'
  } else {
    put("self_attn.q_proj", "attn_q", biases.ofInputs);
    put("self_attn.k_proj", "attn_k", biases.ofInputs);
    put("self_attn.v_proj", "attn_v", biases.ofInputs);
    put("mlp.gate_proj", "ffn_gate", biases.ofFeedForward);
    put("mlp.up_proj", "ffn_up", biases.ofFeedForward);
  }
  put("self_attn.o_proj", "attn_output", biases.ofOutput);
  put("mlp.down_proj", "ffn_down", biases.ofFeedForward);
  if (config.normsHeads) {
    put("self_attn.q_norm", "attn_q_norm");
    put("self_attn.k_norm", "attn_k_norm");
  }
}

void HubTensors::refuse(const std::string &file, const char *verb, const std::string &name,
                        const char *needs) const {
  fail(file, fmt::format("{} '{}', which {} {}; config.json and the weights are of different "
                         "models, or one of them is damaged",
                         verb, name, decoder_, needs));
}

std::string HubTensors::take(const std::string &name, const std::string &file) {
  if (name.ends_with(".rotary_emb.inv_freq")) // what the configuration says, too
    return "";
  auto found = names_.find(name);
  if (found == names_.end())
    refuse(file, "has a tensor", name, "does not have");
  missing_.erase(name);
  return found->second;
}

void HubTensors::checkAll(const std::string &file) const {
  if (!missing_.empty())
    refuse(file, "has no tensor", *missing_.begin(), "needs");
}

} // namespace tensmith::generation
