// Points that a recurrent controller says, trained by how fast they were (Controller.h): the
// baseline that Zhang et al., 2019, hold G-BFS and N-A2C against.
//
// What a point is worth is the logarithm of how much faster it is than the first that was measured;
// its advantage is that over the mean of the last ones. Points are drawn uniformly until there are
// enough to learn from.
#include "tune/model/Controller.h"
#include "tune/search/Search.h"

#include <algorithm>
#include <cmath>

namespace tensmith::tune {
namespace {

class RecurrentSearch : public Search {
public:
  using Search::Search;

private:
  static constexpr double kFailedWorth = -2; // and the least of all
  static constexpr double kNewest = 0.2;     // of the mean, by each observation
  static constexpr int kUpdates = 8;         // before a batch

  void told(const Observation &observation) override {
    if (observation.seconds != kFailed && first_ == 0)
      first_ = observation.seconds;
    if (first_ == 0)
      return;
    double worth = observation.seconds == kFailed
                       ? kFailedWorth
                       : std::max(std::log(first_ / observation.seconds), kFailedWorth);
    mean_ += (steps_.empty() ? 1 : kNewest) * (worth - mean_);
    steps_.push_back({observation.configuration, worth - mean_});
  }

  void begin(size_t) override {
    if (space_.dimensions().empty() || steps_.size() < Controller::kBatch)
      return;
    if (!controller_)
      controller_ = Controller::of(space_);
    for (int update = 0; update < kUpdates; ++update) {
      std::vector<Controller::Step> batch;
      while (batch.size() < Controller::kBatch)
        batch.push_back(steps_[random_.below(steps_.size())]);
      controller_->learn(batch);
    }
  }

  Configuration next() override {
    return controller_ ? controller_->draw(random_) : space_.random(random_);
  }

  std::unique_ptr<Controller> controller_; // once there is something to learn
  std::vector<Controller::Step> steps_;
  double first_ = 0, mean_ = 0;
};

} // namespace

std::unique_ptr<Search> recurrentSearch(const SearchSpace &space, uint64_t seed) {
  return std::make_unique<RecurrentSearch>(space, seed);
}

} // namespace tensmith::tune
