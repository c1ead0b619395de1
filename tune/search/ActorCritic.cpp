// N-A2C: walks from the fastest state, of which an actor chooses the moves, and a critic says what
// states are worth (Zhang et al., Compiler-Level Matrix Multiplication Optimization for Deep
// Learning, 2019).
//
// A move takes one choice to its next value, or one prime factor from one factor of a loop to
// another. Each walk begins at the fastest state and has a few moves; states that nobody has
// measured are proposed. What a state is worth is the logarithm of how much faster it is than the
// first that was measured, with what may be reached from it. Until there are steps enough to learn
// from, moves are drawn uniformly.
#include "tune/model/PolicyNetwork.h"
#include "tune/search/Search.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tensmith::tune {
namespace {

struct Move {
  size_t dimension;
  int32_t step;        // to the next value, or
  size_t from, to = 0; // of a factorisation
};

std::vector<Move> movesOf(const SearchSpace &space) {
  std::vector<Move> moves;
  for (size_t place = 0; place < space.dimensions().size(); ++place) {
    const SearchSpace::Dimension &dimension = space.dimensions()[place];
    size_t parts = dimension.factors.empty() ? 0 : dimension.factors.front().size();
    if (parts == 0)
      moves.insert(moves.end(), {{place, -1, 0}, {place, 1, 0}});
    for (size_t from = 0; from < parts; ++from)
      for (size_t to = 0; to < parts; ++to)
        if (from != to)
          moves.push_back({place, 0, from, to});
  }
  return moves;
}

class ActorCritic : public Search {
public:
  ActorCritic(const SearchSpace &space, uint64_t seed, bool learns)
      : Search(space, seed), learns_(learns), moves_(movesOf(space)) {}

private:
  static constexpr int kSteps = 3;           // of a walk
  static constexpr double kDrawn = 0.1;      // of the moves, whatever the actor says
  static constexpr double kDiscount = 0.5;   // of what is reached a move later
  static constexpr double kFailedWorth = -2; // and the least of all
  static constexpr size_t kRemembered = 256; // steps, the last ones
  static constexpr int kUpdates = 8;         // before a batch
  static constexpr double kScale = 0.1;      // of features, which are logarithms of sizes

  struct Taken {
    Features before, after;
    std::vector<bool> allowed, allowedAfter;
    size_t move;
    double worth = 0; // of where it led
  };

  Features featuresOf(const Configuration &configuration) const {
    Features features = space_.knobs(configuration);
    for (double &each : features)
      each *= kScale;
    return features;
  }

  /// The first of the neighbours that the move leads to; itself where there is none.
  Configuration moved(const Configuration &from, const Move &move) const {
    const SearchSpace::Dimension &dimension = space_.dimensions()[move.dimension];
    int32_t value = from[move.dimension];
    if (value == kAbsent)
      return from;
    if (move.step != 0) {
      int32_t next = value + move.step;
      bool isThere = next >= 0 && next < int32_t(dimension.values.size());
      return isThere ? space_.changed(from, move.dimension, next) : from;
    }
    const Factors &factors = dimension.factors[size_t(value)];
    for (int32_t next : dimension.moves[size_t(value)]) {
      const Factors &others = dimension.factors[size_t(next)];
      if (others[move.from] < factors[move.from] && others[move.to] > factors[move.to])
        return space_.changed(from, move.dimension, next);
    }
    return from;
  }

  std::vector<bool> allowedFrom(const Configuration &state) const {
    std::vector<bool> allowed;
    for (const Move &move : moves_)
      allowed.push_back(moved(state, move) != state);
    return allowed;
  }

  double worthOf(double seconds) const {
    return seconds == kFailed ? kFailedWorth : std::max(std::log(first_ / seconds), kFailedWorth);
  }

  void told(const Observation &observation) override {
    if (observation.seconds != kFailed) {
      first_ = first_ > 0 ? first_ : observation.seconds;
      if (fastest_.empty() || observation.seconds < seconds_) {
        fastest_ = observation.configuration;
        seconds_ = observation.seconds;
      }
    }
    auto waiting = waiting_.find(observation.configuration);
    if (waiting == waiting_.end())
      return;
    if (first_ > 0) {
      waiting->second.worth = worthOf(observation.seconds);
      remembered_.push_back(std::move(waiting->second));
      if (remembered_.size() > kRemembered)
        remembered_.pop_front();
    }
    waiting_.erase(waiting);
  }

  void begin(size_t) override {
    steps_ = kSteps; // a new walk
    if (!learns_ || moves_.empty() || remembered_.size() < PolicyNetwork::kBatch)
      return;
    if (!network_)
      network_ = PolicyNetwork::of(featuresOf(fastest_).size(), moves_.size());
    for (int update = 0; update < kUpdates; ++update) {
      std::vector<PolicyNetwork::Step> steps;
      while (steps.size() < PolicyNetwork::kBatch)
        steps.push_back(stepOf(remembered_[random_.below(remembered_.size())]));
      network_->learn(steps);
    }
  }

  PolicyNetwork::Step stepOf(const Taken &taken) const {
    double reached =
        taken.worth + kDiscount * network_->judge(taken.after, taken.allowedAfter).value;
    double expected = network_->judge(taken.before, taken.allowed).value;
    return {taken.before, taken.allowed, taken.move, reached - expected, reached};
  }

  size_t chosen(const std::vector<bool> &allowed, const Features &state) {
    double left = 1;
    std::vector<double> weights(allowed.begin(), allowed.end());
    if (network_ && random_.uniform() >= kDrawn)
      weights = network_->judge(state, allowed).probabilities;
    else
      left = double(std::ranges::count(allowed, true));
    left *= random_.uniform();
    size_t last = 0;
    for (size_t move = 0; move < weights.size(); ++move)
      if (allowed[move]) {
        last = move;
        left -= weights[move];
        if (left < 0)
          break;
      }
    return last;
  }

  Configuration next() override {
    if (fastest_.empty())
      return space_.random(random_);
    if (steps_++ >= kSteps) {
      walk_ = fastest_;
      steps_ = 1;
    }
    std::vector<bool> allowed = allowedFrom(walk_);
    if (std::ranges::count(allowed, true) == 0)
      return space_.random(random_);
    Features state = featuresOf(walk_);
    size_t move = chosen(allowed, state);
    walk_ = moved(walk_, moves_[move]);
    if (!isKnown(walk_))
      waiting_[walk_] = {state, featuresOf(walk_), allowed, allowedFrom(walk_), move};
    return walk_;
  }

  bool learns_;
  std::vector<Move> moves_;
  std::unique_ptr<PolicyNetwork> network_; // once there is something to learn
  Configuration fastest_, walk_;
  double seconds_ = 0, first_ = 0; // of the fastest, and of the first that was measured
  int steps_ = kSteps;
  std::map<Configuration, Taken> waiting_; // for the times of where they led
  std::deque<Taken> remembered_;
};

} // namespace

std::unique_ptr<Search> actorCriticSearch(const SearchSpace &space, uint64_t seed) {
  return std::make_unique<ActorCritic>(space, seed, /*learns=*/true);
}

std::unique_ptr<Search> randomWalks(const SearchSpace &space, uint64_t seed) {
  return std::make_unique<ActorCritic>(space, seed, /*learns=*/false);
}

} // namespace tensmith::tune
