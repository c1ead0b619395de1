// What searches that go by a cost model share: the model is fitted to what was measured before each
// batch; of the batch a part is what the model likes, chosen for diversity, and the rest is drawn.
#pragma once

#include "tune/model/CostModel.h"
#include "tune/search/Diversity.h"
#include "tune/search/Search.h"

#include <map>

namespace tensmith::tune {

class ModelSearch : public Search {
public:
  ModelSearch(const SearchSpace &space, uint64_t seed, Guide guide)
      : Search(space, seed), guide_(std::move(guide)) {}

protected:
  /// Points that the model likes and nobody has measured, the best first, at most so many.
  virtual std::vector<Scored> plan(size_t count) = 0;
  std::vector<double> valuesOf(std::span<const Configuration> configurations);

private:
  static constexpr double kGreedy = 0.05;    // of a batch, drawn all the same
  static constexpr size_t kSurplus = 3;      // planned for each that is taken
  static constexpr size_t kFew = 8;          // measurements, too few for a model
  static constexpr double kDiversity = 0.02; // of the planned scores' spread, for a new value

  void begin(size_t count) final;
  Configuration next() final;
  /// While a model would know too little to plan: most points are a step from the fastest one.
  Configuration nearFastest();

  const Features &featuresOf(const Configuration &configuration);

  Guide guide_;
  double best_ = 0;                          // the largest predicted score of what was measured
  std::vector<Configuration> batch_;         // the last one is taken first
  std::map<Configuration, Features> cached_; // which may be slow to make
};

} // namespace tensmith::tune
