// All points by their numbers, once around from a drawn start: for spaces that are measured whole.
#include "tune/search/Search.h"

namespace tensmith::tune {
namespace {

class GridSearch : public Search {
public:
  GridSearch(const SearchSpace &space, uint64_t seed)
      : Search(space, seed), size_(space.size()), number_(random_.below(size_)) {}

private:
  Configuration next() override {
    number_ = (number_ + 1) % size_;
    return space_.at(number_);
  }

  uint64_t size_, number_;
};

} // namespace

std::unique_ptr<Search> gridSearch(const SearchSpace &space, uint64_t seed) {
  return std::make_unique<GridSearch>(space, seed);
}

} // namespace tensmith::tune
