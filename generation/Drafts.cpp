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
  std::vector<Token> guess(std::span<const Token> tokens, int64_t most, Sampler) override {
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

class DrawnBy : public Drafter {
public:
  /// `vocabulary`: tokens of the model that it guesses for.
  DrawnBy(std::shared_ptr<const LanguageModel> model, int64_t vocabulary)
      : context_(std::move(model)), vocabulary_(vocabulary) {}

  std::vector<Token> guess(std::span<const Token> tokens, int64_t most, Sampler sampler) override {
    int64_t own = context_.model().architecture().vocabulary;
    // Of what only fills the other's embeddings nothing is known here.
    if (std::ranges::any_of(tokens, [&](Token token) { return token >= own; }))
      return {};
    std::vector<Token> all(tokens.begin(), tokens.end());
    int64_t room = context_.model().contextLength() - int64_t(all.size()) + 1;
    for (int64_t i = 0; i < std::min(most, room); ++i) {
      auto logits = context_.become(all).first(size_t(std::min(own, vocabulary_)));
      all.push_back(sampler.next(logits, all));
      if (context_.model().tokenizer().ends(all.back()))
        break;
    }
    return {all.begin() + ptrdiff_t(tokens.size()), all.end()};
  }

private:
  Context context_;
  int64_t vocabulary_;
};

} // namespace

void checkDrafts(const DraftSettings &settings, const LanguageModel &model) {
  if (settings.most < 0 || settings.most > kMostGuesses)
    failUsage(fmt::format("tokens that are guessed at a time are 1 to {}", kMostGuesses));
  if (settings.looksUp && settings.model)
    failUsage("tokens are guessed by a model or looked up in the text, and not both");
  if (settings.most && !settings.isOn())
    failUsage("it is said how many tokens are guessed at a time, and not by what: a model, or by "
              "looking them up in the text");
  if (!settings.model)
    return;
  const Tokenizer &own = model.tokenizer(), &others = settings.model->tokenizer();
  const std::string &name = settings.model->file().name();
  size_t size = own.used();
  if (size != others.used())
    fail(name, fmt::format("has {} tokens, and the model that it is to guess for has {}",
                           others.used(), size));
  for (Token token = 0; token < Token(size); ++token)
    if (own.usedText(token) != others.usedText(token))
      fail(name, fmt::format("has another token {} than the model that it is to guess for", token));
}

std::unique_ptr<Drafter> drafterOf(const DraftSettings &settings, const LanguageModel &model) {
  if (settings.model)
    return std::make_unique<DrawnBy>(settings.model, model.architecture().vocabulary);
  return std::make_unique<LookUp>();
}

} // namespace tensmith::generation
