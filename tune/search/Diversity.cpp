// One candidate after the other, by what each adds; see Diversity.h.
#include "tune/search/Diversity.h"

#include <set>

namespace tensmith::tune {
namespace {

/// The values that a set has of each choice.
class Covered {
public:
  int add(const Configuration &configuration) {
    int fresh = 0;
    seen_.resize(configuration.size());
    for (size_t i = 0; i < configuration.size(); ++i)
      fresh += seen_[i].insert(configuration[i]).second;
    return fresh;
  }
  int freshOf(const Configuration &configuration) const {
    int fresh = 0;
    for (size_t i = 0; i < configuration.size(); ++i)
      fresh += i >= seen_.size() || !seen_[i].contains(configuration[i]);
    return fresh;
  }

private:
  std::vector<std::set<int32_t>> seen_;
};

} // namespace

double diverseValue(std::span<const Scored> set, double alpha) {
  Covered covered;
  double value = 0;
  for (const Scored &each : set)
    value += each.score + alpha * covered.add(each.configuration);
  return value;
}

std::vector<size_t> greedyDiverse(std::span<const Scored> candidates, size_t count, double alpha) {
  Covered covered;
  std::vector<size_t> chosen;
  std::vector<bool> isChosen(candidates.size());
  while (chosen.size() < std::min(count, candidates.size())) {
    size_t best = candidates.size();
    double most = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (isChosen[i])
        continue;
      double gain = candidates[i].score + alpha * covered.freshOf(candidates[i].configuration);
      if (best == candidates.size() || gain > most)
        best = i, most = gain;
    }
    isChosen[best] = true;
    chosen.push_back(best);
    covered.add(candidates[best].configuration);
  }
  return chosen;
}

} // namespace tensmith::tune
