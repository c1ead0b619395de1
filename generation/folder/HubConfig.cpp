// Configurations of decoders; see HubConfig.h. The meanings are those of the families' classes in
// the library `transformers`, versions 4 and 5.
#include "generation/folder/HubConfig.h"

#include "files/Failure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace tensmith::generation {
namespace {

constexpr int64_t kMostLayers = 1024, kMostPairs = 2048;

struct HubFamily {
  const char *type; // "model_type"
  const char *name; // general.architecture
  int64_t headSize; // unasked; 0: the width over the heads
  bool isGemma = false, normsBothSides = false;
};
constexpr HubFamily kFamilies[] = {
    {"llama", "llama", 0},
    {"mistral", "mistral", 0},
    {"qwen2", "qwen2", 0},
    {"qwen3", "qwen3", 128},
    {"phi3", "phi3", 0},
    {"gemma", "gemma", 256, true},
    {"gemma2", "gemma2", 256, true, true},
    {"gemma3_text", "gemma3", 256, true, true},
};

const HubFamily &familyOf(const JsonPart &config) {
  std::string type = config.text("model_type");
  auto found = std::ranges::find_if(kFamilies, [&](const auto &one) { return type == one.type; });
  if (found != std::end(kFamilies))
    return *found;
  std::string known;
  for (const HubFamily &one : kFamilies)
    known += (known.empty() ? "" : ", ") + std::string(one.type);
  config.wrong("is of the model type '" + type + "'; known are " + known);
}

class ConfigReader {
public:
  explicit ConfigReader(const JsonPart &config) : config_(config), family_(familyOf(config)) {}

  HubConfig read() {
    result_.addsOneToNorms = family_.isGemma, result_.normsBothSides = family_.normsBothSides;
    result_.metadata["general.architecture"] = std::string(family_.name);
    readSizes();
    checkActivation();
    readRotation();
    readWindows();
    readScores();
    return std::move(result_);
  }

private:
  template <typename T> void put(const char *name, T value) {
    result_.metadata[std::string(family_.name) + "." + name] = GgufValue(std::move(value));
  }
  [[noreturn]] void refuse(const std::string &what) const { config_.wrong(what); }

  int64_t size(const char *name, int64_t most) const {
    return checkedSize(name, config_.integer(name), most);
  }
  int64_t checkedSize(const char *name, int64_t value, int64_t most) const {
    if (value < 1 || value > most)
      refuse(fmt::format("'{}' is {}, which is not from 1 to {}", name, value, most));
    return value;
  }

  void readSizes() {
    constexpr int64_t kMost = int64_t(1) << 32;
    layers_ = size("num_hidden_layers", kMostLayers);
    int64_t width = size("hidden_size", kMost), heads = size("num_attention_heads", kMost);
    int64_t plain = family_.headSize ? family_.headSize : std::max<int64_t>(width / heads, 1);
    headSize_ = checkedSize("head_dim", config_.integer("head_dim", plain), 2 * kMostPairs);
    put("block_count", layers_);
    put("embedding_length", width);
    put("attention.head_count", heads);
    put("attention.head_count_kv", config_.integer("num_key_value_heads", heads));
    put("attention.key_length", headSize_);
    put("attention.value_length", headSize_);
    put("context_length", size("max_position_embeddings", kMost));
    put("attention.layer_norm_rms_epsilon", config_.real("rms_norm_eps", 1e-6));
  }

  void checkActivation() const {
    const char *name = config_.has("hidden_activation") ? "hidden_activation" : "hidden_act";
    std::string given = config_.text(name, family_.isGemma ? "gelu_pytorch_tanh" : "silu");
    // Of the first Gemma, "gelu" was written and the tanh form meant.
    bool fits = family_.isGemma
                    ? given == "gelu_pytorch_tanh" || given == "gelu" || given == "gelu_new"
                    : given == "silu" || given == "swish";
    if (!fits)
      refuse(fmt::format("'{}' is '{}', which a model of this family does not have", name, given));
  }

  // Rotations. Version 5 has one object of all settings, or one for each kind of layer.

  void readRotation() {
    put("rope.halves", true);
    auto all = config_.find("rope_parameters");
    auto full = all && all->has("full_attention") ? all->find("full_attention") : all;
    auto windowed = all ? all->find("sliding_attention") : std::nullopt;
    double base = full && full->has("rope_theta") ? full->real("rope_theta")
                                                  : config_.real("rope_theta", 10000);
    put("rope.freq_base", base);
    if (windowed && windowed->has("rope_theta"))
      put("rope.freq_base_swa", windowed->real("rope_theta"));
    else if (config_.has("rope_local_base_freq"))
      put("rope.freq_base_swa", config_.real("rope_local_base_freq"));
    double part = config_.real("partial_rotary_factor", 1);
    if (full)
      part = full->real("partial_rotary_factor", part);
    if (!(part > 0 && part <= 1))
      refuse("'partial_rotary_factor' is not above 0 and up to 1");
    auto rotated = int64_t(part * double(headSize_));
    put("rope.dimension_count", rotated);
    auto scaling = config_.has("rope_scaling") ? config_.find("rope_scaling") : full;
    if (scaling)
      readScaling(*scaling, base, rotated);
    if (windowed && kindOf(*windowed) != "default")
      windowed->wrong("scales the rotation of layers with a window, which is not read");
  }

  static std::string kindOf(const JsonPart &scaling) {
    return scaling.has("rope_type") ? scaling.text("rope_type") : scaling.text("type", "default");
  }

  void readScaling(const JsonPart &scaling, double base, int64_t rotated) {
    std::string kind = kindOf(scaling);
    if (kind == "default")
      return;
    double factor = scaling.real("factor", 0);
    if (kind != "linear" && kind != "llama3")
      scaling.wrong("scales rotations by '" + kind + "'; linear and llama3 are read");
    if (!(factor >= 1 && std::isfinite(factor)))
      scaling.wrong("has no factor of at least 1");
    if (kind == "linear") {
      put("rope.scaling.type", std::string("linear"));
      put("rope.scaling.factor", factor);
      return;
    }
    readBands(scaling, base, rotated, factor);
  }

  /// Llama 3.1's: long waves are stretched by the factor, short ones are not, those between partly.
  void readBands(const JsonPart &scaling, double base, int64_t rotated, double factor) {
    double low = scaling.real("low_freq_factor"), high = scaling.real("high_freq_factor");
    double length = scaling.real("original_max_position_embeddings");
    if (!(low > 0 && high > low && length > 0))
      scaling.wrong("has frequency factors that are not in order, or no original length");
    for (int64_t pair = 0; pair < rotated / 2; ++pair) {
      double wave = 2 * std::numbers::pi * std::pow(base, 2.0 * double(pair) / double(rotated));
      double share = std::clamp((length / wave - low) / (high - low), 0.0, 1.0);
      result_.frequencyFactors.push_back(float(1 / ((1 - share) / factor + share)));
    }
  }

  // Windows.

  void readWindows() {
    int64_t window = config_.integer("sliding_window", 0);
    if (!config_.flag("use_sliding_window", true))
      window = 0;
    if (window < 0)
      refuse(fmt::format("'sliding_window' is {}", window));
    put("attention.sliding_window", window);
    if (!window)
      return;
    if (config_.has("layer_types"))
      return readLayerTypes();
    bool isQwen = std::string_view(family_.name).starts_with("qwen");
    int64_t from = isQwen ? config_.integer("max_window_layers", 0) : 0;
    int64_t period = config_.integer("sliding_window_pattern", 0);
    if (from <= 0 && period <= 0)
      return; // as the family has it
    std::vector<int64_t> has;
    for (int64_t layer = 0; layer < layers_; ++layer)
      has.push_back(layer >= from && (period <= 0 || (layer + 1) % period != 0));
    put("attention.sliding_window_pattern", std::move(has));
  }

  void readLayerTypes() {
    std::vector<int64_t> has;
    for (const JsonPart &type : config_.list("layer_types")) {
      std::string name = type.asText();
      if (name != "full_attention" && name != "sliding_attention")
        type.wrong("is '" + name + "'; full_attention and sliding_attention are read");
      has.push_back(name == "sliding_attention");
    }
    if (int64_t(has.size()) != layers_)
      refuse(fmt::format("'layer_types' names {} layers of {}", has.size(), layers_));
    put("attention.sliding_window_pattern", std::move(has));
  }

  void readScores() {
    bool isCapped = std::string_view(family_.name) == "gemma2";
    put("attn_logit_softcapping", config_.real("attn_logit_softcapping", isCapped ? 50 : 0));
    put("final_logit_softcapping", config_.real("final_logit_softcapping", isCapped ? 30 : 0));
    double scalar = config_.real("query_pre_attn_scalar", double(headSize_));
    if (!(scalar > 0 && std::isfinite(scalar)))
      refuse("'query_pre_attn_scalar' is not above 0");
    put("attention.scale", 1 / std::sqrt(scalar));
  }

  const JsonPart &config_;
  const HubFamily &family_;
  HubConfig result_;
  int64_t layers_ = 0, headSize_ = 0;
};

// ---- Names of tensors

using Names = std::pair<std::string_view, std::string_view>;
constexpr std::array<Names, 13> kOfLayer = {{{"input_layernorm", "attn_norm"},
                                             {"pre_feedforward_layernorm", "ffn_norm"},
                                             {"post_feedforward_layernorm", "post_ffw_norm"},
                                             {"self_attn.q_proj", "attn_q"},
                                             {"self_attn.k_proj", "attn_k"},
                                             {"self_attn.v_proj", "attn_v"},
                                             {"self_attn.qkv_proj", "attn_qkv"},
                                             {"self_attn.o_proj", "attn_output"},
                                             {"self_attn.q_norm", "attn_q_norm"},
                                             {"self_attn.k_norm", "attn_k_norm"},
                                             {"mlp.gate_proj", "ffn_gate"},
                                             {"mlp.up_proj", "ffn_up"},
                                             {"mlp.down_proj", "ffn_down"}}};
constexpr std::array<Names, 3> kOfModel = {
    {{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}}};

/// "": not known.
std::string layerName(std::string_view name, const HubConfig &config) {
  if (name == "post_attention_layernorm")
    return config.normsBothSides ? "post_attention_norm" : "ffn_norm";
  if (name == "mlp.gate_up_proj") // the gate's rows, then the others'
    return "ffn_up";
  auto found = std::ranges::find(kOfLayer, name, &Names::first);
  return found == kOfLayer.end() ? "" : std::string(found->second);
}

} // namespace

HubConfig hubConfigOf(const JsonPart &config) { return ConfigReader(config).read(); }

std::string tensorNameOf(const std::string &name, const HubConfig &config,
                         const std::string &file) {
  if (name.ends_with(".rotary_emb.inv_freq")) // what the configuration says, too
    return "";
  std::string_view rest = name;
  size_t dot = rest.rfind('.');
  std::string_view kind = dot == std::string_view::npos ? "" : rest.substr(dot);
  rest = rest.substr(0, dot);
  std::string result;
  constexpr std::string_view kLayers = "model.layers.";
  if (rest.starts_with(kLayers)) {
    rest.remove_prefix(kLayers.size());
    size_t end = rest.find('.');
    std::string_view number = rest.substr(0, end);
    bool isNumber = !number.empty() && number.size() < 5 &&
                    std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    std::string layer =
        isNumber && end != std::string_view::npos ? layerName(rest.substr(end + 1), config) : "";
    if (!layer.empty())
      result = fmt::format("blk.{}.{}", number, layer);
  } else if (auto found = std::ranges::find(kOfModel, rest, &Names::first);
             found != kOfModel.end()) {
    result = found->second;
  }
  bool hasBias =
      result.find("attn_") != std::string::npos || result.find("ffn_") != std::string::npos;
  bool isKnown = kind == ".weight" || (kind == ".bias" && hasBias && !result.ends_with("_norm"));
  if (result.empty() || !isKnown)
    fail(file, "has a tensor '" + name + "', which no model of its family has");
  return result + std::string(kind);
}

} // namespace tensmith::generation
