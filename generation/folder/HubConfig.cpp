// Configurations of decoders; see HubConfig.h. The meanings are those of the families' classes in
// the library `transformers`, versions 4 and 5.
#include "generation/folder/HubConfig.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace tensmith::generation {
namespace {

constexpr int64_t kMostLayers = 1024, kMostPairs = 2048;
constexpr int64_t kWindow = 4096, kLayersBeforeWindows = 28; // unasked; the second is of Qwen

/// Whether layers see a window of keys: never, where its size is given, also where nothing is said
/// of it, or where 'use_sliding_window' is true.
enum class Windows { None, Asked, Unasked, ByFlag };

/// Which products may have biases: none, queries', keys' and values' always, those of attention, or
/// all, where a flag says so.
enum class HubBiasKind { None, OfInputs, OfAttention, All };

struct HubFamily {
  const char *type; // "model_type"
  const char *name; // general.architecture
  int64_t headSize; // unasked; 0: the width over the heads
  Windows windows = Windows::None;
  HubBiasKind biases = HubBiasKind::None;
  bool isGemma = false, normsBothSides = false, normsHeads = false, joinsMatrices = false;
};
constexpr HubFamily kFamilies[] = {
    {.type = "llama", .name = "llama", .headSize = 0, .biases = HubBiasKind::All},
    {.type = "mistral", .name = "mistral", .headSize = 0, .windows = Windows::Unasked},
    {.type = "qwen2",
     .name = "qwen2",
     .headSize = 0,
     .windows = Windows::ByFlag,
     .biases = HubBiasKind::OfInputs},
    {.type = "qwen3",
     .name = "qwen3",
     .headSize = 128,
     .windows = Windows::ByFlag,
     .biases = HubBiasKind::OfAttention,
     .normsHeads = true},
    {.type = "phi3",
     .name = "phi3",
     .headSize = 0,
     .windows = Windows::Asked,
     .joinsMatrices = true},
    {.type = "gemma",
     .name = "gemma",
     .headSize = 256,
     .biases = HubBiasKind::OfAttention,
     .isGemma = true},
    {.type = "gemma2",
     .name = "gemma2",
     .headSize = 256,
     .windows = Windows::Unasked,
     .biases = HubBiasKind::OfAttention,
     .isGemma = true,
     .normsBothSides = true},
    {.type = "gemma3_text",
     .name = "gemma3",
     .headSize = 256,
     .windows = Windows::Unasked,
     .biases = HubBiasKind::OfAttention,
     .isGemma = true,
     .normsBothSides = true,
     .normsHeads = true},
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
    result_.family = family_.type;
    result_.addsOneToNorms = family_.isGemma, result_.normsBothSides = family_.normsBothSides;
    result_.normsHeads = family_.normsHeads, result_.joinsMatrices = family_.joinsMatrices;
    result_.isTied = config_.flag("tie_word_embeddings", family_.isGemma);
    result_.biases = biases();
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
    layers_ = result_.layers = size("num_hidden_layers", kMostLayers);
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

  HubBiases biases() const {
    HubBiasKind kind = family_.biases;
    bool isAsked = (kind == HubBiasKind::All || kind == HubBiasKind::OfAttention) &&
                   config_.flag("attention_bias", false);
    return {.ofInputs = isAsked || kind == HubBiasKind::OfInputs,
            .ofOutput = isAsked,
            .ofFeedForward = kind == HubBiasKind::All && config_.flag("mlp_bias", false)};
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
    if (kind == "longrope" || kind == "su")
      return readLongRope(scaling, rotated);
    double factor = scaling.real("factor", 0);
    if (kind != "linear" && kind != "llama3" && kind != "yarn")
      scaling.wrong("scales rotations by '" + kind +
                    "'; linear, llama3, yarn and longrope are read");
    if (!(factor >= 1 && std::isfinite(factor)))
      scaling.wrong("has no factor of at least 1");
    if (kind == "llama3")
      return readBands(scaling, base, rotated, factor);
    put("rope.scaling.type", kind);
    put("rope.scaling.factor", factor);
    if (kind == "yarn")
      readYarn(scaling, factor);
  }

  int64_t originalContext(const JsonPart &scaling) const {
    const char *name = "original_max_position_embeddings";
    return scaling.integer(name, config_.integer(name, config_.integer("max_position_embeddings")));
  }

  /// GGUF's factor of attention multiplies yarn's own.
  void readYarn(const JsonPart &scaling, double factor) {
    if (!scaling.flag("truncate", true))
      scaling.wrong("has yarn without 'truncate', which is not read");
    put("rope.scaling.original_context_length", originalContext(scaling));
    put("rope.scaling.yarn_beta_fast", scaling.real("beta_fast", 32));
    put("rope.scaling.yarn_beta_slow", scaling.real("beta_slow", 1));
    auto magnitude = [&](double scale) { return 1 + 0.1 * scale * std::log(factor); };
    double scale = scaling.real("mscale", 0), ofAll = scaling.real("mscale_all_dim", 0);
    double whole = scale != 0 && ofAll != 0 ? magnitude(scale) / magnitude(ofAll) : magnitude(1);
    whole = scaling.real("attention_factor", whole);
    put("rope.scaling.attn_factor", whole / magnitude(1));
  }

  void readLongRope(const JsonPart &scaling, int64_t rotated) {
    int64_t original = originalContext(scaling),
            longest = config_.integer("max_position_embeddings");
    if (original < 2 || longest < 1)
      scaling.wrong("has no original context of 2 tokens or more");
    for (auto [name, tensor] : {std::pair("short_factor", "rope_factors_short.weight"),
                                std::pair("long_factor", "rope_factors_long.weight")}) {
      std::vector<float> &factors = result_.frequencyFactors[tensor];
      for (const JsonPart &factor : scaling.list(name))
        factors.push_back(float(factor.asReal()));
      if (int64_t(factors.size()) != rotated / 2)
        scaling.wrong(
            fmt::format("has {} numbers of '{}' for {} pairs", factors.size(), name, rotated / 2));
    }
    double factor = scaling.real("factor", double(longest) / double(original));
    double whole = factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(double(original))) : 1;
    put("rope.scaling.type", std::string("longrope"));
    put("rope.scaling.original_context_length", original);
    put("rope.scaling.attn_factor", scaling.real("attention_factor", whole));
  }

  /// Llama 3.1's: long waves are stretched by the factor, short ones are not, those between partly.
  void readBands(const JsonPart &scaling, double base, int64_t rotated, double factor) {
    double low = scaling.real("low_freq_factor"), high = scaling.real("high_freq_factor");
    double length = scaling.real("original_max_position_embeddings");
    if (!(low > 0 && high > low && length > 0))
      scaling.wrong("has frequency factors that are not in order, or no original length");
    std::vector<float> &factors = result_.frequencyFactors["rope_freqs.weight"];
    for (int64_t pair = 0; pair < rotated / 2; ++pair) {
      double wave = 2 * std::numbers::pi * std::pow(base, 2.0 * double(pair) / double(rotated));
      double share = std::clamp((length / wave - low) / (high - low), 0.0, 1.0);
      factors.push_back(float(1 / ((1 - share) / factor + share)));
    }
  }

  // Windows.

  /// 0: none, as where it is null.
  int64_t windowSize() const {
    bool has = family_.windows != Windows::None;
    if (family_.windows == Windows::ByFlag)
      has = config_.flag("use_sliding_window", false);
    if (!has)
      return 0;
    bool isSaid = config_.json().contains("sliding_window");
    int64_t unasked = isSaid || family_.windows == Windows::Asked ? 0 : kWindow;
    int64_t window = config_.integer("sliding_window", unasked);
    if (window < 0)
      refuse(fmt::format("'sliding_window' is {}", window));
    return window;
  }

  void readWindows() {
    int64_t window = windowSize();
    put("attention.sliding_window", window);
    if (!window)
      return;
    if (config_.has("layer_types"))
      return readLayerTypes();
    bool isQwen = family_.windows == Windows::ByFlag;
    int64_t from = isQwen ? config_.integer("max_window_layers", kLayersBeforeWindows) : 0;
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

} // namespace

HubConfig hubConfigOf(const JsonPart &config) { return ConfigReader(config).read(); }

} // namespace tensmith::generation
