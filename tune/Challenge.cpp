// Turns and their statistics; see Challenge.h.
#include "tune/Challenge.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tensmith::tune {

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::ranges::sort(values);
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Verdict judge(std::span<const double> challenger, std::span<const double> other) {
  Verdict verdict;
  size_t turns = std::min(challenger.size(), other.size());
  if (turns == 0)
    return verdict;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < turns; ++i) {
    double ratio = std::log(challenger[i] / other[i]);
    sum += ratio;
    squares += ratio * ratio;
  }
  auto count = double(turns);
  double mean = sum / count;
  verdict.ratio = std::exp(mean);
  if (turns < 2)
    return verdict;
  // Of times that agree to the last bit, as simulated ones do, nothing is uncertain.
  double error = std::sqrt(std::max(0.0, (squares / count - mean * mean)) / (count - 1));
  constexpr double kNothing = 1e-12;
  verdict.confidence = error > kNothing ? std::erfc(mean / error / std::numbers::sqrt2) / 2
                       : mean < 0       ? 1
                                        : 0;
  return verdict;
}

Verdict challenge(Bench &bench, size_t challenger, size_t other, int fewest, int most) {
  std::vector<double> fast, slow;
  Verdict verdict;
  for (int turn = 0; turn < most; ++turn) {
    // Whoever is first meets other caches and clocks: they change places.
    RunOutcome first = bench.run(turn % 2 ? other : challenger);
    RunOutcome second = bench.run(turn % 2 ? challenger : other);
    const RunOutcome &ofChallenger = turn % 2 ? second : first,
                     &ofOther = turn % 2 ? first : second;
    if (!ofChallenger.isTimed()) {
      verdict.failure = ofChallenger.outcome + ": " + ofChallenger.why;
      break;
    }
    if (!ofOther.isTimed())
      continue;
    fast.push_back(ofChallenger.seconds);
    slow.push_back(ofOther.seconds);
    std::string failure = verdict.failure;
    verdict = judge(fast, slow);
    bool isDecided = verdict.confidence >= Verdict::kConfident || verdict.confidence <= 0.5;
    if (turn + 1 >= fewest && isDecided)
      break;
  }
  verdict.challenger = std::move(fast);
  verdict.other = std::move(slow);
  return verdict;
}

} // namespace tensmith::tune
