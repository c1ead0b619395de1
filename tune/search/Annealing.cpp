// Parallel simulated annealing under a cost model.
//
// As AutoTVM's (Chen et al., Learning to optimize tensor programs, 2018): 128 chains walk for up to
// 500 steps, each by one choice drawn again, and take a worse point with a probability that falls
// with the temperature, which goes down in a line. Chains persist: the next batch's go on from
// where the last one's ended. The best points that any of them passed are the plan. A walk ends
// early when its plan no longer gets better.
#include "tune/search/ModelSearch.h"

#include <algorithm>
#include <cmath>

namespace tensmith::tune {
namespace {

/// The best points that were passed, each once.
class Best {
public:
  explicit Best(size_t most) : most_(most) {}

  /// Whether it is among them now, and was not.
  bool add(double score, const Configuration &configuration) {
    if ((points_.size() == most_ && score <= points_.begin()->first) ||
        !known_.insert(configuration).second)
      return false;
    points_.emplace(score, configuration);
    if (points_.size() > most_)
      points_.erase(points_.begin());
    return true;
  }

  std::vector<Scored> sorted() const {
    std::vector<Scored> all;
    for (auto point = points_.rbegin(); point != points_.rend(); ++point)
      all.push_back({point->second, point->first});
    return all;
  }

private:
  size_t most_;
  std::multimap<double, Configuration> points_;
  std::set<Configuration> known_;
};

class Annealing : public ModelSearch {
public:
  using ModelSearch::ModelSearch;

private:
  static constexpr size_t kChains = 128;
  static constexpr int kSteps = 500, kPatience = 50;

  void startChains() {
    constexpr size_t kFromBest = 16; // chains that begin at what was measured to be fast
    std::vector<const Observation *> fast;
    for (const Observation &observation : history_)
      fast.push_back(&observation);
    std::ranges::stable_sort(fast, {}, [](const Observation *each) { return each->seconds; });
    for (size_t i = 0; i < std::min(kFromBest, fast.size()); ++i)
      chains_.push_back(fast[i]->configuration);
    while (chains_.size() < kChains)
      chains_.push_back(space_.random(random_));
  }

  std::vector<Scored> plan(size_t count) override {
    if (chains_.empty())
      startChains();
    Best best(count);
    std::vector<double> scores = valuesOf(chains_);
    auto offer = [&](double score, const Configuration &configuration) {
      return !isKnown(configuration) && best.add(score, configuration);
    };
    for (size_t i = 0; i < kChains; ++i)
      offer(scores[i], chains_[i]);
    int idle = 0;
    for (int step = 0; step < kSteps && idle < kPatience; ++step) {
      double temperature = 1 - double(step) / kSteps;
      std::vector<Configuration> moved;
      for (const Configuration &chain : chains_)
        moved.push_back(space_.mutated(chain, random_));
      std::vector<double> values = valuesOf(moved);
      ++idle;
      for (size_t i = 0; i < kChains; ++i) {
        if (offer(values[i], moved[i]))
          idle = 0;
        double worse = scores[i] - values[i];
        if (worse <= 0 || random_.uniform() < std::exp(-worse / std::max(temperature, 1e-5))) {
          chains_[i] = std::move(moved[i]);
          scores[i] = values[i];
        }
      }
    }
    return best.sorted();
  }

  std::vector<Configuration> chains_;
};

} // namespace

std::unique_ptr<Search> annealingSearch(const SearchSpace &space, uint64_t seed, Guide guide) {
  return std::make_unique<Annealing>(space, seed, std::move(guide));
}

} // namespace tensmith::tune
