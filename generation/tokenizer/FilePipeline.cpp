// A GGUF file's tokenizer as steps; see FilePipeline.h.
#include "generation/tokenizer/FilePipeline.h"

#include "files/Failure.h"

#include <fmt/format.h>

namespace tensmith::generation {
namespace {

using Json = JsonPart::Json;

constexpr const char *kMark = "\xe2\x96\x81"; // U+2581, which stands for a space
enum TokenKind : int64_t { Unknown = 2, Control, Users, Unused, Byte };

std::string base64(const std::vector<int64_t> &bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  uint32_t bits = 0, count = 0;
  for (int64_t byte : bytes) {
    bits = bits << 8 | uint8_t(byte), count += 8;
    for (; count >= 6; count -= 6)
      result += kDigits[bits >> (count - 6) & 63];
  }
  if (count)
    result += kDigits[bits << (6 - count) & 63];
  return result;
}

Json normalizerOfFile(const GgufFile &file) {
  Json steps = Json::array();
  if (const auto &map = file.integers("tokenizer.ggml.precompiled_charsmap"); !map.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(map)}});
  if (file.flag("tokenizer.ggml.remove_extra_whitespaces", false)) {
    for (const char *outside : {R"(\A +)", R"( +\z)"})
      steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", outside}}}, {"content", ""}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json spacesOf(const GgufFile &file) {
  bool adds = file.flag("tokenizer.ggml.add_space_prefix", true);
  return {{"type", "Metaspace"},
          {"replacement", kMark},
          {"prepend_scheme", adds ? "always" : "never"},
          {"split", false}};
}

/// Tokens that are found by their names, before anything else.
Json addedOf(const std::vector<std::string> &texts, const std::vector<int64_t> &kinds) {
  Json added = Json::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    bool isControl = kinds[i] == Control || kinds[i] == Unknown;
    if (isControl || kinds[i] == Users)
      added.push_back(
          {{"id", i}, {"content", texts[i]}, {"special", isControl}, {"normalized", false}});
  }
  return added;
}

} // namespace

std::shared_ptr<TokenPipeline> rankPipeline(const GgufFile &file,
                                            const std::vector<std::string> &expressions,
                                            bool takesWholeWords) {
  const auto &texts = file.texts("tokenizer.ggml.tokens");
  auto kinds = file.integers("tokenizer.ggml.token_type");
  kinds.resize(texts.size(), 1);
  Json vocabulary = Json::object(), cuts = Json::array();
  for (size_t i = 0; i < texts.size(); ++i)
    vocabulary.emplace(texts[i], i);
  for (const std::string &expression : expressions)
    cuts.push_back({{"type", "Split"},
                    {"pattern", {{"Regex", expression}}},
                    {"behavior", "Isolated"},
                    {"invert", false}});
  Json letters = {{"type", "ByteLevel"},
                  {"add_prefix_space", false},
                  {"use_regex", false},
                  {"trim_offsets", false}};
  cuts.push_back(letters);
  Json whole = {{"model",
                 {{"type", "BPE"},
                  {"vocab", vocabulary},
                  {"merges", file.texts("tokenizer.ggml.merges")},
                  {"ignore_merges", takesWholeWords}}},
                {"added_tokens", addedOf(texts, kinds)},
                {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", cuts}}},
                {"decoder", letters}};
  return std::make_shared<TokenPipeline>(JsonPart(whole, file.name()));
}

std::shared_ptr<TokenPipeline> unigramPipeline(const GgufFile &file) {
  const auto &texts = file.texts("tokenizer.ggml.tokens");
  const auto &scores = file.reals("tokenizer.ggml.scores");
  const auto &kinds = file.integers("tokenizer.ggml.token_type");
  if (scores.size() != texts.size() || kinds.size() != texts.size())
    fail(file.name(), fmt::format("has {} tokens, {} scores and {} kinds of them", texts.size(),
                                  scores.size(), kinds.size()));
  Json vocabulary = Json::array();
  bool hasBytes = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    vocabulary.push_back(Json::array({texts[i], scores[i]}));
    hasBytes |= kinds[i] == Byte;
  }
  int64_t unknown = file.integer("tokenizer.ggml.unknown_token_id", -1);
  Json model = {{"type", "Unigram"}, {"vocab", vocabulary}, {"byte_fallback", hasBytes}};
  if (unknown >= 0)
    model["unk_id"] = unknown;
  Json spaces = spacesOf(file);
  Json whole = {
      {"model", model},
      {"added_tokens", addedOf(texts, kinds)},
      {"normalizer", normalizerOfFile(file)},
      {"pre_tokenizer", spaces},
      {"decoder",
       {{"type", "Sequence"}, {"decoders", Json::array({{{"type", "ByteFallback"}}, spaces})}}}};
  return std::make_shared<TokenPipeline>(JsonPart(whole, file.name()));
}

} // namespace tensmith::generation
