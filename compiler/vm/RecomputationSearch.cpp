// The search for what to keep: families of plans, each a few numbers; see Recomputation.h.
//
// A replay is cheap to try, since it is a model of numbers; how much memory its arena takes is
// known only when its buffers are placed. So replays are chosen by what is alive in them, the best
// is measured, and the search goes on with a target that is corrected by that.
#include "compiler/vm/Recomputation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace tensmith::vm {
namespace {

constexpr double kNothingIsDear = std::numeric_limits<double>::infinity();
constexpr int kMeasurements = 8;
constexpr int kPartSteps = 16;
/// Copies that cost more than so many ways forward are no plan.
constexpr double kMostForwards = 24;
constexpr size_t kMostLeaves = 4096;

struct Candidate {
  Keeping keeping;
  int64_t peak = 0;
  double cost = 0;
};

class Search {
public:
  Search(const Tape &tape, const RecomputationRequest &request, const MeasureArena &measure)
      : tape_(tape), request_(request), measure_(measure), replayer_(tape) {
    for (const Tape::Operator &op : tape.operators)
      wholeCost_ += op.cost;
    size_t most = std::min(kMostLeaves, std::max<size_t>(2, tape.turn / 2));
    for (double leaves = 2; size_t(leaves) <= most; leaves *= std::sqrt(2.0))
      if (leaves_.empty() || leaves_.back() != size_t(leaves))
        leaves_.push_back(size_t(leaves));
    findLevels();
  }

  Result<Recomputation> run(int64_t &least) {
    Replay original = replayer_.original();
    auto arena = measure_(original);
    if (!arena.ok())
      return arena.status();
    if (!request_.bytes)
      return leastOfPlan();
    least = *arena;
    if (*arena <= *request_.bytes)
      return Recomputation{std::nullopt, *arena};
    return meet(double(*request_.bytes) * double(original.peakBytes) / double(*arena), least);
  }

private:
  /// Where costs per byte lie, in steps of a factor of two: the largest of each, so that what is
  /// dearer is of the next one.
  void findLevels() {
    levels_ = {0};
    double first = 0; // of the step
    for (double cost : replayer_.costsPerByte())
      if (cost > 2 * first) {
        levels_.push_back(cost);
        first = cost;
      } else if (cost > 0) {
        levels_.back() = cost;
      }
    if (levels_.size() > kMostLevels)
      levels_.erase(levels_.begin() + 1, levels_.end() - kMostLevels + 1);
    levels_.push_back(kNothingIsDear);
  }

  const Candidate &candidate(const Keeping &keeping) {
    std::tuple key{keeping.cuts, keeping.leaves, keeping.dear, keeping.part};
    auto [it, isNew] = tried_.try_emplace(key, Candidate{keeping});
    if (isNew) {
      Replay replay = replayer_.replay(keeping, kMostForwards * replayer_.forwardCost());
      bool made = !replay.steps.empty();
      it->second.peak = made ? replay.peakBytes : std::numeric_limits<int64_t>::max();
      it->second.cost = made ? replay.cost : kNothingIsDear;
    }
    return it->second;
  }

  std::vector<size_t> cutsOf(size_t leaves) const {
    if (request_.plan == RecomputationPlan::Segments)
      return {leaves - 1};
    if (request_.plan == RecomputationPlan::Recursive)
      return {1};
    std::vector<size_t> cuts{leaves - 1};
    for (size_t few : {8, 4, 2, 1})
      if (few + 1 < leaves)
        cuts.push_back(few);
    return cuts;
  }

  template <typename Visit> void visitLeast(Visit visit) {
    for (size_t leaves : leaves_)
      for (size_t cuts : cutsOf(leaves))
        visit(candidate({cuts, leaves, kNothingIsDear, 0}));
  }

  /// The cheapest with no more than that alive; of those that are equal, the one with least alive.
  const Candidate *best(double target) {
    const Candidate *best = nullptr;
    auto consider = [&](const Candidate &candidate) {
      if (double(candidate.peak) <= target &&
          (!best || std::tie(candidate.cost, candidate.peak) < std::tie(best->cost, best->peak)))
        best = &candidate;
    };
    visitLeast(consider);
    if (request_.plan == RecomputationPlan::Cost)
      for (size_t leaves : leaves_)
        for (double dear : levels_)
          considerParts(leaves, dear, target, consider);
    return best;
  }

  /// The largest part of the way forward whose dear values can be kept.
  template <typename Consider>
  void considerParts(size_t leaves, double dear, double target, Consider consider) {
    if (dear == kNothingIsDear)
      return;
    auto at = [&](int step) -> const Candidate & {
      return candidate({leaves - 1, leaves, dear, double(step) / kPartSteps});
    };
    if (double(at(kPartSteps).peak) <= target)
      return consider(at(kPartSteps));
    if (double(candidate({leaves - 1, leaves, kNothingIsDear, 0}).peak) > target)
      return;
    int low = 0, high = kPartSteps;
    while (high - low > 1) {
      int middle = (low + high) / 2;
      (double(at(middle).peak) <= target ? low : high) = middle;
    }
    if (low > 0)
      consider(at(low));
  }

  Result<Recomputation> measured(const Candidate &candidate) {
    Replay replay = replayer_.replay(candidate.keeping, kNothingIsDear);
    auto arena = measure_(replay);
    if (!arena.ok())
      return arena.status();
    return Recomputation{candidate.keeping, *arena, replay.copies,
                         wholeCost_ > 0 ? replay.cost / wholeCost_ : 0};
  }

  Result<Recomputation> leastOfPlan() {
    const Candidate *least = nullptr;
    visitLeast([&](const Candidate &candidate) {
      if (!least || std::tie(candidate.peak, candidate.cost) < std::tie(least->peak, least->cost))
        least = &candidate;
    });
    return measured(*least);
  }

  Result<Recomputation> meet(double target, int64_t &least) {
    std::optional<Recomputation> found;
    double bytes = double(*request_.bytes), low = 0;
    for (int i = 0; i < kMeasurements; ++i) {
      const Candidate *next = best(target);
      if (!next)
        break;
      auto made = measured(*next);
      if (!made.ok())
        return made;
      least = std::min(least, made->arenaBytes);
      double ratio = bytes / double(made->arenaBytes);
      if (ratio >= 1) {
        if (!found || made->work < found->work)
          found = *made;
        low = std::max(low, target);
        if (ratio < kCloseEnough || i + 2 >= kMeasurements)
          break;
        target *= std::sqrt(ratio);
      } else {
        if (found && target * ratio <= low)
          break;
        target = std::min(target * ratio, double(next->peak) - 1);
      }
    }
    if (found)
      return *found;
    auto smallest = leastOfPlan();
    if (!smallest.ok())
      return smallest;
    least = std::min(least, smallest->arenaBytes);
    if (smallest->arenaBytes <= *request_.bytes)
      return smallest;
    return Status(StatusCode::ResourceExhausted, "");
  }

  static constexpr size_t kMostLevels = 8;
  static constexpr double kCloseEnough = 1.05;

  const Tape &tape_;
  const RecomputationRequest &request_;
  const MeasureArena &measure_;
  Replayer replayer_;
  double wholeCost_ = 0;
  std::vector<size_t> leaves_;
  std::vector<double> levels_; // of what is dear
  std::map<std::tuple<size_t, size_t, double, double>, Candidate> tried_;
};

} // namespace

Result<Recomputation> chooseRecomputation(const Tape &tape, const RecomputationRequest &request,
                                          const MeasureArena &measure, int64_t &least) {
  return Search(tape, request, measure).run(least);
}

} // namespace tensmith::vm
