// Fit, plan, choose; see ModelSearch.h.
#include "tune/search/ModelSearch.h"

#include <algorithm>
#include <cmath>

namespace tensmith::tune {

const Features &ModelSearch::featuresOf(const Configuration &configuration) {
  constexpr size_t kMostCached = 200000;
  auto known = cached_.find(configuration);
  if (known != cached_.end())
    return known->second;
  if (cached_.size() > kMostCached)
    cached_.clear();
  return cached_.emplace(configuration, guide_.of(space_, configuration)).first->second;
}

std::vector<double> ModelSearch::valuesOf(std::span<const Configuration> configurations) {
  std::vector<Features> rows;
  for (const Configuration &configuration : configurations)
    rows.push_back(featuresOf(configuration));
  std::vector<double> values;
  for (const Prediction &prediction : guide_.model->predict(rows))
    values.push_back(valueOf(prediction, guide_.acquisition, best_));
  return values;
}

void ModelSearch::begin(size_t count) {
  batch_.clear();
  std::vector<Features> rows;
  std::vector<double> seconds;
  for (const Observation &observation : history_) {
    rows.push_back(featuresOf(observation.configuration));
    seconds.push_back(observation.seconds);
  }
  guide_.model->fit(rows, seconds);
  if (!guide_.model->isFitted())
    return;
  best_ = -INFINITY;
  for (const Prediction &prediction : guide_.model->predict(rows))
    best_ = std::max(best_, prediction.score);
  auto taken = size_t(std::ceil(double(count) * (1 - kGreedy)));
  if (taken == count && random_.uniform() < kGreedy * double(count))
    --taken;
  std::vector<Scored> planned = plan(kSurplus * taken);
  if (planned.empty())
    return;
  double spread = planned.front().score - planned.back().score;
  for (size_t number : greedyDiverse(planned, taken, kDiversity * spread))
    batch_.push_back(planned[number].configuration);
  std::ranges::reverse(batch_);
}

Configuration ModelSearch::nearFastest() {
  auto fastest = std::ranges::min_element(history_, {}, &Observation::seconds);
  return fastest == history_.end() ? space_.random(random_)
                                   : space_.mutated(fastest->configuration, random_);
}

Configuration ModelSearch::next() {
  if (batch_.empty())
    return history_.size() >= kFew || !random_.below(4) ? space_.random(random_) : nearFastest();
  Configuration configuration = std::move(batch_.back());
  batch_.pop_back();
  return configuration;
}

} // namespace tensmith::tune
