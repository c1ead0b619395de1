// Evolutionary search under a cost model: a population of drawn and of measured points goes through
// generations of mutation and crossover, in which the model says who has children.
//
// As Ansor's (Zheng et al., 2020, section 5.1): a parent is drawn with probability proportional to
// the exponential of its score; the best of all generations are the plan.
#include "tune/search/ModelSearch.h"

#include <algorithm>
#include <cmath>

namespace tensmith::tune {
namespace {

class Evolutionary : public ModelSearch {
public:
  using ModelSearch::ModelSearch;

private:
  static constexpr size_t kPopulation = 256, kMeasured = 64;
  static constexpr int kGenerations = 5;
  static constexpr double kMutated = 0.85; // of the children; the others have two parents

  std::vector<Configuration> firstGeneration() {
    std::vector<const Observation *> fast;
    for (const Observation &observation : history_)
      fast.push_back(&observation);
    std::ranges::stable_sort(fast, {}, [](const Observation *each) { return each->seconds; });
    std::vector<Configuration> population;
    for (size_t i = 0; i < std::min(kMeasured, fast.size()); ++i)
      population.push_back(fast[i]->configuration);
    while (population.size() < kPopulation)
      population.push_back(space_.random(random_));
    return population;
  }

  std::vector<Configuration> childrenOf(std::span<const Configuration> population,
                                        std::span<const double> scores) {
    double most = *std::ranges::max_element(scores), sum = 0;
    std::vector<double> below; // cumulative
    for (double score : scores)
      below.push_back(sum += std::exp(score - most));
    auto parent = [&]() -> const Configuration & {
      auto place = std::ranges::lower_bound(below, random_.uniform() * sum) - below.begin();
      return population[std::min(size_t(place), population.size() - 1)];
    };
    std::vector<Configuration> children;
    while (children.size() < kPopulation) {
      if (random_.uniform() < kMutated) {
        children.push_back(space_.mutated(parent(), random_));
        continue;
      }
      const Configuration *two[] = {&parent(), &parent()};
      children.push_back(space_.crossover(two, random_));
    }
    return children;
  }

  std::vector<Scored> plan(size_t count) override {
    std::map<Configuration, double> seen;
    std::vector<Configuration> population = firstGeneration();
    for (int generation = 0; generation < kGenerations; ++generation) {
      std::vector<double> scores = valuesOf(population);
      for (size_t i = 0; i < population.size(); ++i)
        if (!isKnown(population[i]))
          seen.emplace(population[i], scores[i]);
      population = childrenOf(population, scores);
    }
    std::vector<Scored> all;
    for (const auto &[configuration, score] : seen)
      all.push_back({configuration, score});
    std::ranges::stable_sort(all, std::greater(), &Scored::score);
    all.resize(std::min(all.size(), count));
    return all;
  }
};

} // namespace

std::unique_ptr<Search> evolutionarySearch(const SearchSpace &space, uint64_t seed, Guide guide) {
  return std::make_unique<Evolutionary>(space, seed, std::move(guide));
}

} // namespace tensmith::tune
