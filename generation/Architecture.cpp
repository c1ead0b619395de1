// Reading a decoder's sizes; see Architecture.h.
#include "generation/Architecture.h"

#include "files/Failure.h"
#include "generation/Rotations.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr int64_t kMostLayers = 1024, kMostHeads = 4096, kMostHeadSize = 4096;
constexpr int64_t kMostWidth = 1 << 20, kMostContext = int64_t(1) << 24;

constexpr Family kFamilies[] = {
    {.name = "llama", .rotation = Rotation::Neighbours},
    {.name = "mistral", .rotation = Rotation::Neighbours},
    {.name = "qwen2"},
    {.name = "qwen3"},
    {.name = "phi2", .activation = Activation::Gelu, .isUngated = true, .isParallel = true},
    {.name = "phi3"},
    {.name = "starcoder2", .activation = Activation::Gelu, .isUngated = true},
    {.name = "gemma", .activation = Activation::Gelu, .scalesEmbeddings = true},
    {.name = "gemma2",
     .activation = Activation::Gelu,
     .scalesEmbeddings = true,
     .windowPeriod = 2,
     .layersScaledByWidth = 46},
    {.name = "gemma3",
     .activation = Activation::Gelu,
     .scalesEmbeddings = true,
     .windowPeriod = 6,
     .windowBase = 10000,
     .layersScaledByWidth = 62},
};

const Family &familyOf(const GgufFile &file) {
  std::string name = file.text("general.architecture");
  auto found = std::ranges::find_if(kFamilies, [&](const Family &one) { return one.name == name; });
  if (found != std::end(kFamilies))
    return *found;
  std::string known;
  for (const Family &one : kFamilies)
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  fail(file.name(), "is of the architecture '" + name + "'; known are " + known);
}

int64_t within(const GgufFile &file, const std::string &key, int64_t value, int64_t most) {
  if (value < 1 || value > most)
    fail(file.name(), fmt::format("'{}' is {}, which is not from 1 to {}", key, value, most));
  return value;
}

} // namespace

Architecture architectureOf(const GgufFile &file) {
  Architecture a;
  a.family = &familyOf(file);
  auto key = [&](const char *name) { return std::string(a.family->name) + "." + name; };
  auto size = [&](const char *name, int64_t most) {
    return within(file, key(name), file.integer(key(name)), most);
  };
  auto sizeOr = [&](const char *name, int64_t otherwise, int64_t most) {
    return within(file, key(name), file.integer(key(name), otherwise), most);
  };
  a.layers = size("block_count", kMostLayers);
  a.width = size("embedding_length", kMostWidth);
  a.heads = size("attention.head_count", kMostHeads);
  a.keyHeads = sizeOr("attention.head_count_kv", a.heads, kMostHeads);
  a.headSize =
      sizeOr("attention.key_length", std::max<int64_t>(a.width / a.heads, 1), kMostHeadSize);
  a.rotated = sizeOr("rope.dimension_count", a.headSize, kMostHeadSize);
  a.context = sizeOr("context_length", 2048, kMostContext);
  if (a.heads % a.keyHeads || a.rotated > a.headSize || a.rotated % 2 || a.headSize % 2)
    fail(file.name(),
         fmt::format("has {} heads, {} of keys, of {} numbers, {} of them rotated, which "
                     "don't fit one another",
                     a.heads, a.keyHeads, a.headSize, a.rotated));
  if (sizeOr("attention.value_length", a.headSize, kMostHeadSize) != a.headSize)
    fail(file.name(), "has values of another size than keys, which is not read");
  a.epsilon = file.real(key("attention.layer_norm_rms_epsilon"),
                        file.real(key("attention.layer_norm_epsilon"), 1e-5));
  if (int64_t experts = file.integer(key("expert_count"), 0))
    fail(file.name(), fmt::format("has {} experts, of which a token has some; mixtures of experts "
                                  "are not read",
                                  experts));
  readRotations(a, file, key(""));
  // Files of this program's alone: GGUF's have heads in the order of their family.
  bool isHalves = file.flag(key("rope.halves"), a.family->rotation == Rotation::Halves);
  a.rotation = isHalves ? Rotation::Halves : Rotation::Neighbours;
  a.windowBase = file.real(key("rope.freq_base_swa"), a.family->windowBase);
  a.window = file.integer(key("attention.sliding_window"), 0);
  // A list for all layers; where it is a number, that is the family's period.
  auto pattern = file.metadata().find(key("attention.sliding_window_pattern"));
  if (pattern != file.metadata().end())
    if (const auto *has = std::get_if<std::vector<int64_t>>(&pattern->second)) {
      if (int64_t(has->size()) != a.layers)
        fail(file.name(), fmt::format("says of {} layers whether they have a window, and has {}",
                                      has->size(), a.layers));
      a.windowed.assign(has->begin(), has->end());
    }
  if (a.window < 0 || a.window > kMostContext)
    fail(file.name(), fmt::format("has a window of {} keys", a.window));
  a.scoreCap = file.real(key("attn_logit_softcapping"), 0);
  a.logitCap = file.real(key("final_logit_softcapping"), 0);
  bool byWidth = a.layers == a.family->layersScaledByWidth;
  a.scoreScale =
      1 / std::sqrt(double(byWidth ? std::max<int64_t>(a.width / a.heads, 1) : a.headSize));
  a.scoreScale = file.real(key("attention.scale"), a.scoreScale);
  const GgufTensor &embeddings = file.tensor("token_embd.weight");
  if (embeddings.shape.size() != 2 || embeddings.shape[1] != a.width)
    fail(file.name(), fmt::format("'token_embd.weight' is of {}, not of {} numbers for each token",
                                  toString(embeddings.shape), a.width));
  a.vocabulary = embeddings.shape[0];
  return a;
}

} // namespace tensmith::generation
