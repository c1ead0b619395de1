// A search over one kernel's points: it proposes what to measure next, and is told what came of it.
//
// A search never proposes what it was told of, so that no budget is spent twice; one that is told
// of earlier trials before it starts goes on where those ended, which is how tuning resumes. A
// failed trial counts as infinitely slow. What it proposes depends on its seed and on what it was
// told alone.
#pragma once

#include "tune/model/CostModel.h"

#include <deque>
#include <limits>
#include <memory>
#include <set>
#include <string_view>

namespace tensmith::tune {

inline constexpr double kFailed = std::numeric_limits<double>::infinity();

struct Observation {
  Configuration configuration;
  double seconds; // kFailed: it did not run
};

class Search {
public:
  Search(const SearchSpace &space, uint64_t seed) : space_(space), random_(seed) {}
  virtual ~Search() = default;

  /// At most so many, all different; fewer where the space, or the search, has no more.
  std::vector<Configuration> propose(size_t count);
  void observe(std::span<const Observation> observations);
  /// Points that are proposed before the search's own, in this order.
  void suggest(std::vector<Configuration> configurations);

protected:
  /// One more that may be new; the caller drops what is known.
  virtual Configuration next() = 0;
  /// Before `next` is called for a batch of so many.
  virtual void begin(size_t count) {}
  virtual void told(const Observation &observation) {}

  bool isKnown(const Configuration &configuration) const { return known_.contains(configuration); }

  const SearchSpace &space_;
  Random random_;
  std::vector<Observation> history_;

private:
  std::set<Configuration> known_; // observed or proposed
  std::deque<Configuration> suggested_;
};

/// What searches are called, and what each is.
struct SearchKind {
  std::string_view name, meaning;
  bool needsModel;
};
std::span<const SearchKind> searchKinds();

/// By its name. `guide`: of those that go by a model. Throws Failure where there is no such
/// search.
std::unique_ptr<Search> makeSearch(std::string_view name, const SearchSpace &space, uint64_t seed,
                                   Guide guide);

std::unique_ptr<Search> randomSearch(const SearchSpace &space, uint64_t seed);
std::unique_ptr<Search> gridSearch(const SearchSpace &space, uint64_t seed);
std::unique_ptr<Search> geneticSearch(const SearchSpace &space, uint64_t seed);
std::unique_ptr<Search> actorCriticSearch(const SearchSpace &space, uint64_t seed);
/// The same walks, whose moves are all drawn uniformly: what the actor has to beat.
std::unique_ptr<Search> randomWalks(const SearchSpace &space, uint64_t seed);
std::unique_ptr<Search> recurrentSearch(const SearchSpace &space, uint64_t seed);
std::unique_ptr<Search> greedyBestFirst(const SearchSpace &space, uint64_t seed);
std::unique_ptr<Search> annealingSearch(const SearchSpace &space, uint64_t seed, Guide guide);
std::unique_ptr<Search> evolutionarySearch(const SearchSpace &space, uint64_t seed, Guide guide);

} // namespace tensmith::tune
