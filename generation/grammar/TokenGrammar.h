// A grammar over the tokens of a vocabulary: which may come next, in each of its states.
//
// Tokens are sorted by their bytes, so that those with an equal beginning are walked once, and a
// beginning that the grammar doesn't have takes all behind it away. What a state allows is kept.
#pragma once

#include "generation/Tokenizer.h"
#include "generation/grammar/Grammar.h"

#include <memory>
#include <span>

namespace tensmith::generation {

/// Tokens that stand for bytes, in their order.
class TokenBytes {
public:
  explicit TokenBytes(const Tokenizer &tokenizer);

private:
  friend class TokenGrammar;
  struct Entry {
    std::string bytes;
    Token token;
  };
  std::vector<Entry> entries_;
};

/// Used by one thread at a time, for any number of texts.
class TokenGrammar {
public:
  using State = GrammarStates::State;

  /// Throws Failure where the grammar can't be run.
  TokenGrammar(std::shared_ptr<const TokenBytes> tokens, Grammar grammar);

  State start() const { return states_.start(); }
  bool mayEnd(State state) const { return states_.mayEnd(state); }
  /// Tokens that may come, in order. Throws Failure where a limit of the grammar is reached.
  const std::vector<Token> &allowed(State state);
  State next(State state, std::string_view bytes);

private:
  void walk(size_t begin, size_t end, size_t depth, State state, std::vector<Token> &to);

  std::shared_ptr<const TokenBytes> tokens_;
  GrammarStates states_;
  std::unordered_map<State, std::vector<Token>> allowed_;
  size_t kept_ = 0; // tokens of all of those
};

/// One text that follows a grammar.
class ConstrainedText {
public:
  explicit ConstrainedText(std::shared_ptr<TokenGrammar> grammar)
      : grammar_(std::move(grammar)), state_(grammar_->start()) {}

  /// Takes the hope of all tokens that can't come. Never throws: what fails ends the text.
  void constrain(std::span<float> logits, const Tokenizer &tokenizer);
  /// Notes what came. False where the text is done.
  bool give(std::string_view bytes);
  const std::string &failure() const { return failure_; } // empty: none

private:
  std::shared_ptr<TokenGrammar> grammar_;
  TokenGrammar::State state_;
  std::string failure_;
};

} // namespace tensmith::generation
