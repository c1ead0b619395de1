// Guessing tokens; see Drafts.h.
#include "generation/Drafts.h"

#include "files/Failure.h"

#include <algorithm>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr int64_t kMostGuesses = 64;
constexpr size_t kLongestMatch = 4, kShortestMatch = 2; // tokens that were there before

/// What followed the text's last tokens where they stood last before: those of the longest match.
class LookUp : public Drafter {
public:
  std::vector<Token> guess(std::span<const Token> tokens, int64_t most) override {
    for (size_t size = kLongestMatch; size >= kShortestMatch; --size) {
      if (tokens.size() <= size)
        continue;
      std::span<const Token> last = tokens.last(size), before = tokens.first(tokens.size() - 1);
      auto found = std::ranges::find_end(before, last);
      if (found.empty())
        continue;
      auto next = size_t(found.end() - before.begin());
      size_t count = std::min(size_t(most), tokens.size() - next);
      return {tokens.begin() + ptrdiff_t(next), tokens.begin() + ptrdiff_t(next + count)};
    }
    return {};
  }
};

class LikeliestOf : public Drafter {
public:
  explicit LikeliestOf(std::shared_ptr<const LanguageModel> model) : context_(std::move(model)) {}

  std::vector<Token> guess(std::span<const Token> tokens, int64_t most) override {
    std::vector<Token> all(tokens.begin(), tokens.end());
    int64_t room = context_.model().contextLength() - int64_t(all.size()) + 1;
    for (int64_t i = 0; i < std::min(most, room); ++i) {
      std::span<const float> logits = context_.become(all);
      all.push_back(Token(std::ranges::max_element(logits) - logits.begin()));
      if (context_.model().tokenizer().ends(all.back()))
        break;
    }
    return {all.begin() + ptrdiff_t(tokens.size()), all.end()};
  }

private:
  Context context_;
};

} // namespace

void checkDrafts(const DraftSettings &settings, const LanguageModel &model) {
  if (settings.most < 0 || settings.most > kMostGuesses)
    failUsage(fmt::format("tokens that are guessed at a time are 1 to {}", kMostGuesses));
  if (settings.looksUp && settings.model)
    failUsage("tokens are guessed by a model or looked up in the text, and not both");
  if (!settings.model)
    return;
  const Tokenizer &own = model.tokenizer(), &others = settings.model->tokenizer();
  const std::string &name = settings.model->file().name();
  if (own.size() != others.size())
    fail(name, fmt::format("has {} tokens, and the model that it is to guess for has {}",
                           others.size(), own.size()));
  for (Token token = 0; token < Token(own.size()); ++token)
    if (own.text(token) != others.text(token))
      fail(name, fmt::format("has another token {} than the model that it is to guess for", token));
}

std::unique_ptr<Drafter> drafterOf(const DraftSettings &settings) {
  if (settings.model)
    return std::make_unique<LikeliestOf>(settings.model);
  return std::make_unique<LookUp>();
}

} // namespace tensmith::generation
