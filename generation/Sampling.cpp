// Choosing tokens; see Sampling.h.
#include "generation/Sampling.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tensmith::generation {

Sampler::Sampler(const SamplingSettings &settings, int64_t prompt)
    : settings_(settings), prompt_(prompt), random_(settings.seed) {
  auto require = [](bool holds, const char *what) {
    if (!holds)
      failUsage(what);
  };
  require(settings.temperature >= 0 && std::isfinite(settings.temperature),
          "the temperature is at least 0");
  require(settings.topK >= 0, "top k is a number of tokens, or 0 for all");
  require(settings.topP > 0 && settings.topP <= 1, "top p is in (0, 1]");
  require(settings.minP >= 0 && settings.minP <= 1, "min p is in [0, 1]");
  require(settings.repeatPenalty > 0 && std::isfinite(settings.repeatPenalty),
          "the penalty of repetition is above 0; 1 is none");
  require(std::abs(settings.presencePenalty) <= 2 && std::abs(settings.frequencyPenalty) <= 2,
          "the penalties 'presence_penalty' and 'frequency_penalty' are in [-2, 2]");
  require(settings.repeatLast >= 0, "the tokens that repetition is looked for in are a number");
}

void Sampler::shift(std::span<const Token> past) {
  auto add = [&](Token token, double what) {
    if (token >= 0 && size_t(token) < candidates_.size())
      candidates_[size_t(token)].logit += float(what);
  };
  for (auto [token, bias] : settings_.biases)
    add(token, bias);
  if (settings_.presencePenalty == 0 && settings_.frequencyPenalty == 0)
    return;
  std::set<Token> seen;
  for (Token token : past.subspan(std::min(past.size(), size_t(prompt_))))
    add(token,
        -settings_.frequencyPenalty - (seen.insert(token).second ? settings_.presencePenalty : 0));
}

void Sampler::holdBack(std::span<const Token> past) {
  if (settings_.repeatPenalty == 1)
    return;
  auto penalty = float(settings_.repeatPenalty);
  size_t count = std::min(past.size(), size_t(settings_.repeatLast));
  std::set<Token> seen(past.end() - ptrdiff_t(count), past.end());
  for (Token token : seen)
    if (token >= 0 && size_t(token) < candidates_.size()) {
      float &logit = candidates_[size_t(token)].logit;
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
}

/// Candidates in order, the likeliest first, without those that are never drawn.
void Sampler::cut() {
  auto likelier = [](const Candidate &a, const Candidate &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  size_t kept =
      settings_.topK ? std::min(size_t(settings_.topK), candidates_.size()) : candidates_.size();
  std::ranges::partial_sort(candidates_, candidates_.begin() + ptrdiff_t(kept), likelier);
  candidates_.resize(kept);
  float most = candidates_[0].logit;
  double sum = 0;
  for (const Candidate &c : candidates_)
    sum += std::exp(double(c.logit - most));
  double before = 0;
  size_t count = 0;
  for (const Candidate &c : candidates_) {
    double share = std::exp(double(c.logit - most));
    if (count && (before >= settings_.topP * sum || share < settings_.minP))
      break;
    before += share, ++count;
  }
  candidates_.resize(count);
}

Token Sampler::next(std::span<const float> logits, std::span<const Token> past) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i)
    candidates_.push_back({Token(i), std::isnan(logits[i]) ? -INFINITY : logits[i]});
  if (candidates_.empty())
    return 0;
  shift(past);
  holdBack(past);
  if (settings_.temperature == 0)
    return std::ranges::max_element(candidates_, {}, &Candidate::logit)->token;
  cut();
  std::vector<double> weights;
  for (const Candidate &c : candidates_)
    weights.push_back(std::exp(double(c.logit - candidates_[0].logit) / settings_.temperature));
  double sum = 0;
  for (double weight : weights)
    sum += std::isfinite(weight) ? weight : 0;
  double at = double(random_() >> 11) * 0x1p-53 * sum;
  for (size_t i = 0; i < weights.size(); ++i)
    if ((at -= std::isfinite(weights[i]) ? weights[i] : 0) < 0)
      return candidates_[i].token;
  return candidates_[0].token;
}

} // namespace tensmith::generation
