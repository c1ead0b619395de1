// What all searches share: no point twice; and the table of them. See Search.h.
#include "tune/search/Search.h"

#include "files/Failure.h"

#include <array>

namespace tensmith::tune {
namespace {

constexpr std::array<SearchKind, 9> kKinds = {{
    {"random", "points drawn uniformly", false},
    {"grid", "all points, by number, from a drawn start", false},
    {"genetic", "generations with elites and three parents (Tensor Comprehensions)", false},
    {"greedy", "neighbours of the best state first (G-BFS)", false},
    {"actor-critic", "walks by a policy that is learnt (N-A2C)", false},
    {"walks", "the same walks, moves drawn uniformly: what the policy has to beat", false},
    {"rnn", "points that a recurrent controller says, by policy gradients (REINFORCE)", false},
    {"annealing", "parallel simulated annealing under a cost model (AutoTVM)", true},
    {"evolutionary", "mutation and crossover under a cost model (Ansor)", true},
}};

} // namespace

std::vector<Configuration> Search::propose(size_t count) {
  constexpr int kTries = 200; // for each point, before what is left is looked through
  std::vector<Configuration> proposed;
  uint64_t size = space_.size();
  for (; !suggested_.empty() && proposed.size() < count; suggested_.pop_front())
    if (known_.insert(suggested_.front()).second)
      proposed.push_back(suggested_.front());
  if (proposed.size() < count)
    begin(count - proposed.size());
  while (proposed.size() < count && known_.size() < size) {
    Configuration configuration;
    bool isNew = false;
    for (int i = 0; i < kTries && !isNew; ++i) {
      configuration = next();
      isNew = known_.insert(configuration).second;
    }
    // Nearly all is known, or the search comes back to what it knows: any other point.
    uint64_t start = random_.below(size);
    for (uint64_t i = 0; i < size && !isNew; ++i) {
      configuration = space_.at((start + i) % size);
      isNew = known_.insert(configuration).second;
    }
    if (isNew)
      proposed.push_back(std::move(configuration));
  }
  return proposed;
}

void Search::observe(std::span<const Observation> observations) {
  for (const Observation &observation : observations) {
    known_.insert(observation.configuration);
    history_.push_back(observation);
    told(observation);
  }
}

void Search::suggest(std::vector<Configuration> configurations) {
  for (Configuration &configuration : configurations)
    suggested_.push_back(std::move(configuration));
}

std::span<const SearchKind> searchKinds() { return kKinds; }

std::unique_ptr<Search> makeSearch(std::string_view name, const SearchSpace &space, uint64_t seed,
                                   Guide guide) {
  if (name == "random")
    return randomSearch(space, seed);
  if (name == "grid")
    return gridSearch(space, seed);
  if (name == "genetic")
    return geneticSearch(space, seed);
  if (name == "greedy")
    return greedyBestFirst(space, seed);
  if (name == "actor-critic")
    return actorCriticSearch(space, seed);
  if (name == "walks")
    return randomWalks(space, seed);
  if (name == "rnn")
    return recurrentSearch(space, seed);
  if (name == "annealing")
    return annealingSearch(space, seed, std::move(guide));
  if (name == "evolutionary")
    return evolutionarySearch(space, seed, std::move(guide));
  std::string names;
  for (const SearchKind &kind : kKinds)
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  failUsage("there is no search '" + std::string(name) + "'; there are " + names);
}

} // namespace tensmith::tune
