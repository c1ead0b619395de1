// Greedy best-first search (G-BFS): of all states that were measured the fastest one that has
// neighbours left is expanded, by some of them drawn at random.
//
// Zhang et al., Compiler-Level Matrix Multiplication Optimization for Deep Learning, 2019, whose
// states are factorisations of tile sizes; here they are points of any space, and a move is one
// choice's next value, or one prime factor of a factorisation that goes elsewhere. It begins where
// it is told to: at the first point that it was told of, which is the estimates', or at a drawn
// one.
#include "tune/search/Search.h"

#include <algorithm>
#include <map>

namespace tensmith::tune {
namespace {

class GreedyBestFirst : public Search {
public:
  using Search::Search;

private:
  static constexpr size_t kExpanded = 5; // neighbours of a state that are taken at a time

  void told(const Observation &observation) override {
    if (observation.seconds != kFailed)
      open_.emplace(observation.seconds, observation.configuration);
  }

  void expandBest() {
    while (waiting_.empty() && !open_.empty()) {
      auto best = open_.begin();
      std::vector<Configuration> moves = space_.neighbours(best->second);
      std::erase_if(moves, [&](const Configuration &move) { return isKnown(move); });
      if (moves.size() <= kExpanded)
        open_.erase(best);
      for (size_t i = 0; i < kExpanded && !moves.empty(); ++i) {
        size_t drawn = random_.below(moves.size());
        waiting_.push_back(std::move(moves[drawn]));
        moves.erase(moves.begin() + ptrdiff_t(drawn));
      }
    }
  }

  Configuration next() override {
    expandBest();
    if (waiting_.empty())
      return space_.random(random_);
    Configuration move = std::move(waiting_.back());
    waiting_.pop_back();
    return move;
  }

  std::multimap<double, Configuration> open_; // by seconds
  std::vector<Configuration> waiting_;
};

} // namespace

std::unique_ptr<Search> greedyBestFirst(const SearchSpace &space, uint64_t seed) {
  return std::make_unique<GreedyBestFirst>(space, seed);
}

} // namespace tensmith::tune
