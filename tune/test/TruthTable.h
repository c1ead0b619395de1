// A kernel's sub-space with the times of all its points, and searches that are replayed on it.
//
// Problem: what a search is worth is said by many runs of it, which a machine can't measure live.
// Method: all points of a sub-space are measured once, each beside the estimates' point; a search
// is then told those times, with any seed, in no time. The sub-space is a product of parts of
// choices' values, so that moves of every search stay within it.
//
// A table is lines of JSON: {"kernel", "estimated", "choices"} (as the compiler tells of spaces),
// then a list for each point, in the order of their numbers: seconds of the point and of the
// estimates' point in turns, [p, e, p, e, ...]; empty where it failed. A table whose measuring was
// ended has fewer lines.
#pragma once

#include "tune/search/Search.h"

#include <functional>
#include <istream>

namespace tensmith::tune {

/// The choices that `kept` names, {"tile_rows": [1, 2, 4], "steps": null}, with those values of
/// theirs; null: all. Throws Failure where there is no such choice or value.
Json subSpace(const Json &choices, const Json &kept, const std::string &what);

class TruthTable {
public:
  static TruthTable read(std::istream &in, const std::string &name);
  /// Of known times, by number.
  TruthTable(SearchSpace space, std::vector<double> times);

  const SearchSpace &space() const { return space_; }
  /// By number: the median of the ratios to the estimates' point; kFailed where it failed.
  const std::vector<double> &times() const { return times_; }
  double time(const Configuration &point) const;
  double best() const;
  int64_t failures() const;
  /// The same times, of other points.
  TruthTable permuted(uint64_t seed) const;

private:
  uint64_t numberOf(const Configuration &point) const;

  SearchSpace space_;
  std::vector<double> times_;
};

/// Trials, failed ones included, until a point's time is within `within` of the best; `most` where
/// none is by then. `told`: what the search is told; the times of `table` decide.
int64_t trialsToBest(Search &search, const TruthTable &table, const TruthTable &told, double within,
                     int64_t most, size_t batch);

} // namespace tensmith::tune
