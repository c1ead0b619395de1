// Generations of points: the best of one live on, and the others are crossings of three parents,
// some choices of which are drawn again.
//
// As Tensor Comprehensions' autotuner (Vasilache et al., 2018): parents are drawn with probability
// proportional to their fitness, the inverse of their time; a child takes each choice of one of
// three parents; each choice is drawn again with a small probability. A generation ends when all of
// it was measured.
#include "tune/search/Search.h"

#include <algorithm>

namespace tensmith::tune {
namespace {

class GeneticSearch : public Search {
public:
  using Search::Search;

private:
  static constexpr size_t kPopulation = 32, kElites = 8;
  static constexpr double kMutation = 0.1; // of each choice

  void told(const Observation &observation) override {
    generation_.push_back(observation);
    if (generation_.size() < kPopulation)
      return;
    std::ranges::stable_sort(generation_, {}, &Observation::seconds);
    parents_.assign(generation_.begin(), generation_.end());
    std::erase_if(parents_, [](const Observation &parent) { return parent.seconds == kFailed; });
    generation_.resize(kElites);
  }

  const Configuration *parent() {
    double all = 0;
    for (const Observation &each : parents_)
      all += 1 / each.seconds;
    double drawn = random_.uniform() * all;
    for (const Observation &each : parents_)
      if ((drawn -= 1 / each.seconds) <= 0)
        return &each.configuration;
    return &parents_.back().configuration;
  }

  Configuration next() override {
    if (parents_.size() < 3)
      return space_.random(random_);
    const Configuration *three[] = {parent(), parent(), parent()};
    Configuration child = space_.crossover(three, random_);
    for (size_t i = 0; i < space_.dimensions().size(); ++i)
      if (random_.uniform() < kMutation)
        child = space_.mutated(child, random_);
    return child;
  }

  std::vector<Observation> generation_, parents_;
};

} // namespace

std::unique_ptr<Search> geneticSearch(const SearchSpace &space, uint64_t seed) {
  return std::make_unique<GeneticSearch>(space, seed);
}

} // namespace tensmith::tune
