// Points drawn uniformly from the whole space: what every other search has to be better than.
#include "tune/search/Search.h"

namespace tensmith::tune {
namespace {

class RandomSearch : public Search {
public:
  using Search::Search;

private:
  Configuration next() override { return space_.random(random_); }
};

} // namespace

std::unique_ptr<Search> randomSearch(const SearchSpace &space, uint64_t seed) {
  return std::make_unique<RandomSearch>(space, seed);
}

} // namespace tensmith::tune
