// What a request's JSON asks for, checked, and the JSON of its answer: the shapes are those of
// OpenAI's interface. What is asked for and is not done here is refused, by its name; what only
// hints, such as `user`, is not looked at.
#pragma once

#include "generation/chat/Chat.h"
#include "generation/grammar/Grammar.h"

#include <optional>

namespace tensmith::generation {

/// The status of a request whose client has left, which nobody reads.
inline constexpr int kClientLeft = 499;

/// What a request is answered with that can't be done.
struct Refusal : std::runtime_error {
  Refusal(int status, const std::string &why) : std::runtime_error(why), status(status) {}
  int status;
};

/// A token that was drawn, and how likely it was.
struct TokenChance {
  std::string bytes;
  double logarithm = 0; // of its probability, by the model's own logits
};
struct DrawnToken : TokenChance {
  std::vector<TokenChance> likeliest; // at its place, as many as were asked for
};
/// Of the tokens of highest logits, NaN never among them, `count`; before them `token` itself.
DrawnToken drawnToken(Token token, std::span<const float> logits, int64_t count,
                      const Tokenizer &tokenizer);

/// Of texts: how each is continued, and how that is told.
struct TextRequest {
  bool isChat = false, isStreamed = false, hasUsage = false;
  int64_t choices = 1; // of each prompt
  GenerationSettings settings;
  std::vector<std::string> stops;
  std::vector<std::vector<Token>> prompts;
  std::optional<Grammar> grammar;   // that the texts follow
  std::optional<int64_t> likeliest; // probabilities are told, beside those of so many others
  std::string id, model;
  int64_t created = 0;

  int64_t texts() const { return int64_t(prompts.size()) * choices; }
  Json frame(bool isPiece) const;
  Json choice(size_t index, const std::string &text, const char *reason, bool isPiece,
              const Json &chances = nullptr) const;
  /// Null where they weren't asked for. `offset`: characters of the text so far, which grow.
  Json chances(const std::vector<DrawnToken> &tokens, size_t &offset) const;
  /// A chat's first piece, which says who speaks.
  Json opening(size_t index) const;
  Json usage(int64_t tokens) const;
};

/// Throw Refusal.
Json parsed(const std::string &body);
const Json &field(const Json &body, const char *name);
/// All but the prompts.
TextRequest textRequest(const Json &body, bool isChat, const LanguageModel &model);
/// A text, tokens, or a list of either, each of at least one token and no more than the context.
std::vector<std::vector<Token>> promptsOf(const Json &prompt, const LanguageModel &model);
/// What a chat's template sees beside its messages.
Json chatVariables(const Json &body);
bool encodesBase64(const Json &body);

Json modelJson(const std::string &name);
Json embeddingJson(size_t index, const std::vector<float> &vector, bool isBase64);
std::vector<float> unitLength(const std::vector<double> &vector);
/// Takes the same time wherever they differ.
bool isSame(const std::string &given, const std::string &wanted);

} // namespace tensmith::generation
