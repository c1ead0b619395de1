// Tokens that a grammar allows; see TokenGrammar.h.
#include "generation/grammar/TokenGrammar.h"

#include "files/Failure.h"

#include <algorithm>
#include <limits>

namespace tensmith::generation {
namespace {

constexpr size_t kMostKept = size_t(2) << 20; // tokens that states allow, of all states together

constexpr size_t kLongest = 1024; // bytes of a token that may come: a walk is as deep

constexpr char kNoToken[] = "no token of the model continues the text by its grammar";

} // namespace

TokenBytes::TokenBytes(const Tokenizer &tokenizer) {
  for (size_t i = 0; i < tokenizer.size(); ++i)
    if (std::string bytes = tokenizer.bytesOf(Token(i));
        !bytes.empty() && bytes.size() <= kLongest && !tokenizer.ends(Token(i)))
      entries_.push_back({std::move(bytes), Token(i)});
  std::ranges::sort(entries_, {}, &Entry::bytes);
}

TokenGrammar::TokenGrammar(std::shared_ptr<const TokenBytes> tokens, Grammar grammar)
    : tokens_(std::move(tokens)), states_(std::move(grammar)) {}

const std::vector<Token> &TokenGrammar::allowed(State state) {
  if (auto found = allowed_.find(state); found != allowed_.end())
    return found->second;
  std::vector<Token> tokens;
  walk(0, tokens_->entries_.size(), 0, state, tokens);
  std::ranges::sort(tokens);
  kept_ += tokens.size();
  if (kept_ > kMostKept)
    allowed_.clear(), kept_ = tokens.size();
  return allowed_[state] = std::move(tokens);
}

/// Of entries [begin, end), whose first `depth` bytes are equal and have led to the state.
void TokenGrammar::walk(size_t begin, size_t end, size_t depth, State state,
                        std::vector<Token> &to) {
  const auto &entries = tokens_->entries_;
  for (; begin < end && entries[begin].bytes.size() == depth; ++begin)
    to.push_back(entries[begin].token);
  while (begin < end) {
    auto byte = uint8_t(entries[begin].bytes[depth]);
    auto same = std::partition_point(
        entries.begin() + int64_t(begin), entries.begin() + int64_t(end),
        [&](const TokenBytes::Entry &entry) { return uint8_t(entry.bytes[depth]) == byte; });
    auto behind = size_t(same - entries.begin());
    if (State next = states_.next(state, byte); next != GrammarStates::kNowhere)
      walk(begin, behind, depth + 1, next, to);
    begin = behind;
  }
}

TokenGrammar::State TokenGrammar::next(State state, std::string_view bytes) {
  for (char byte : bytes)
    state = states_.next(state, uint8_t(byte));
  return state;
}

void ConstrainedText::constrain(std::span<float> logits, const Tokenizer &tokenizer) {
  try {
    const std::vector<Token> &allowed = grammar_->allowed(state_);
    bool mayEnd = grammar_->mayEnd(state_);
    if (allowed.empty() && !mayEnd)
      failure_ = kNoToken;
    auto next = allowed.begin();
    for (size_t i = 0; i < logits.size(); ++i) {
      bool isAllowed = next != allowed.end() && size_t(*next) == i;
      next += isAllowed;
      if (!isAllowed && !(mayEnd && tokenizer.ends(Token(i))))
        logits[i] = -std::numeric_limits<float>::infinity();
    }
  } catch (const Failure &failure) {
    failure_ = failure.what();
  }
}

bool ConstrainedText::give(std::string_view bytes) {
  if (!failure_.empty())
    return false;
  try {
    state_ = grammar_->next(state_, bytes);
    if (!grammar_->allowed(state_).empty())
      return true;
    if (!grammar_->mayEnd(state_))
      failure_ = kNoToken;
  } catch (const Failure &failure) {
    failure_ = failure.what();
  }
  return false;
}

} // namespace tensmith::generation
