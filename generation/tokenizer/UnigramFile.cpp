// A GGUF file's Unigram as steps; see UnigramFile.h.
#include "generation/tokenizer/UnigramFile.h"

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
    steps.push_back({{"type", "Strip"}});
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

} // namespace

std::shared_ptr<TokenPipeline> unigramPipeline(const GgufFile &file) {
  const auto &texts = file.texts("tokenizer.ggml.tokens");
  const auto &scores = file.reals("tokenizer.ggml.scores");
  const auto &kinds = file.integers("tokenizer.ggml.token_type");
  if (scores.size() != texts.size() || kinds.size() != texts.size())
    fail(file.name(), fmt::format("has {} tokens, {} scores and {} kinds of them", texts.size(),
                                  scores.size(), kinds.size()));
  Json vocabulary = Json::array(), added = Json::array();
  bool hasBytes = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    vocabulary.push_back(Json::array({texts[i], scores[i]}));
    hasBytes |= kinds[i] == Byte;
    bool isControl = kinds[i] == Control || kinds[i] == Unknown;
    if (isControl || kinds[i] == Users)
      added.push_back(
          {{"id", i}, {"content", texts[i]}, {"special", isControl}, {"normalized", false}});
  }
  int64_t unknown = file.integer("tokenizer.ggml.unknown_token_id", -1);
  Json model = {{"type", "Unigram"}, {"vocab", vocabulary}, {"byte_fallback", hasBytes}};
  if (unknown >= 0)
    model["unk_id"] = unknown;
  Json spaces = spacesOf(file);
  Json whole = {
      {"model", model},
      {"added_tokens", added},
      {"normalizer", normalizerOfFile(file)},
      {"pre_tokenizer", spaces},
      {"decoder",
       {{"type", "Sequence"}, {"decoders", Json::array({{{"type", "ByteFallback"}}, spaces})}}}};
  return std::make_shared<TokenPipeline>(JsonPart(whole, file.name()));
}

} // namespace tensmith::generation
