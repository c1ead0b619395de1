// Choosing the next token by the logits: biases and penalties are added, repetition is held back,
// then the candidates are cut (top k, top p, min p), and one is drawn. A temperature of 0 takes the
// likeliest.
//
// The same seed and logits give the same tokens. Sources: arXiv 1904.09751 (top p), 2407.01082
// (min p), 1909.05858 (repetition).
#pragma once

#include "generation/Tokenizer.h"

#include <random>
#include <span>

namespace tensmith::generation {

struct SamplingSettings {
  double temperature = 0.8;
  int64_t topK = 40;        // 0: all
  double topP = 0.95;       // 1: all
  double minP = 0.05;       // of the likeliest's probability; 0: all
  double repeatPenalty = 1; // 1: none
  int64_t repeatLast = 64;  // tokens that are looked at
  uint64_t seed = 0;
  // Taken off the logits of tokens that the text has behind its prompt: once, and for each time.
  double presencePenalty = 0, frequencyPenalty = 0;
  std::vector<std::pair<Token, float>> biases; // added to logits
};

class Sampler {
public:
  /// Throws Failure where a setting is out of its range.
  /// `prompt`: tokens of the past that penalties of the text don't count.
  explicit Sampler(const SamplingSettings &settings, int64_t prompt = 0);

  /// `past`: the tokens so far. NaN is never chosen.
  Token next(std::span<const float> logits, std::span<const Token> past);

private:
  struct Candidate {
    Token token;
    float logit;
  };
  void shift(std::span<const Token> past);
  void holdBack(std::span<const Token> past);
  void cut();

  SamplingSettings settings_;
  int64_t prompt_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

} // namespace tensmith::generation
