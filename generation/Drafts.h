// Guesses of what a text says next, which a batch computes together with the text's own next token:
// where they are right, a run that reads all weights once gives several tokens (speculative
// decoding: arXiv 2211.17192, 2302.01318).
//
// A guess is a fixed sequence of tokens, and not a distribution. The model's logits behind each are
// drawn from as ever, and the draw decides: where it is the token that was guessed, the next row is
// worth something, and otherwise it is not looked at. So whatever is guessed, a text has the tokens
// that it has without guesses, drawn by the same random numbers.
//
// Guesses come from what the text itself said after the same tokens before (prompt look-up), or
// from another model of the same tokens, smaller. It draws from its own logits by the random
// numbers that the text's tokens will be drawn by (a coupling of the two draws): the nearer the two
// distributions are, the more often both draws are one token, at any temperature.
#pragma once

#include "generation/LanguageModel.h"
#include "generation/Sampling.h"

namespace tensmith::generation {

/// Of one text.
class Drafter {
public:
  virtual ~Drafter() = default;
  /// Up to `most` tokens that may follow; none is an answer. `sampler`: a copy of the text's own.
  virtual std::vector<Token> guess(std::span<const Token> tokens, int64_t most,
                                   Sampler sampler) = 0;
};

struct DraftSettings {
  bool looksUp = false;                       // in the text itself
  std::shared_ptr<const LanguageModel> model; // guesses; may be none
  int64_t most = 0;                           // tokens at a time; 0: 4

  bool isOn() const { return looksUp || model; }
};

/// Throws Failure where settings are out of range, or the models have other tokens. How far their
/// embeddings are filled up beyond those makes no difference.
void checkDrafts(const DraftSettings &settings, const LanguageModel &model);
/// Of settings that are on, for a text of the model.
std::unique_ptr<Drafter> drafterOf(const DraftSettings &settings, const LanguageModel &model);

} // namespace tensmith::generation
