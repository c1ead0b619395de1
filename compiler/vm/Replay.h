// A function that computes values again instead of keeping them, as a model of numbers alone.
//
// The way forward ends with the operator that gives the first result; what stands behind it is the
// way back. A value of the way forward that is not kept is computed again just before the operator
// of the way back that reads it, from the nearest values that are there. What is kept is said by
// cuts: positions of the way forward at which little is alive, whose live values stay. Cuts at one
// level are the plan of Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; within
// the part before a cut that is computed again, cuts are made anew, which with few at each level is
// the recursive plan of Griewank and Walther, "Revolve", 2000.
//
// The invariant: a replay has the operators of the function in their order, and copies between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tensmith::vm {

/// What is computed, in order. Values are numbers; those that are always there (parameters,
/// constants, what lies outside of the arena) have none.
struct Tape {
  struct Operator {
    std::vector<uint32_t> reads, writes;
    double cost = 0;
    bool isPure = false; // may be computed again
  };
  std::vector<Operator> operators;
  std::vector<int64_t> bytes; // of each value
  size_t turn = 0;            // operators of the way forward
};

/// Of what is kept.
struct Keeping {
  size_t cuts = 1;   // at each level
  size_t leaves = 1; // parts of the way forward, by bytes, in which all is kept once it is computed
  /// Beside what is alive at cuts: results that the way back needs, of operators that cost more
  /// than this for each byte, in the last such part of the way forward.
  double dear = 0;
  double part = 0;
};

struct Replay {
  struct Step {
    uint32_t number; // of the operator
    bool isCopy;
  };
  std::vector<Step> steps;
  int64_t peakBytes = 0; // alive at a time
  double cost = 0;       // of the copies
  int64_t copies = 0;
};

class Replayer {
public:
  explicit Replayer(const Tape &tape);

  /// Of the function as it is.
  Replay original() const;
  /// No steps where it would take more than `mostCost` for copies.
  Replay replay(const Keeping &keeping, double mostCost) const;
  double forwardCost() const { return forwardCost_; }
  /// Costs per byte of the operators of the way forward, in ascending order, each once.
  std::vector<double> costsPerByte() const;

private:
  friend class ReplayRun;

  void measureCuts();
  size_t leastAlive(size_t first, size_t last) const;
  double costPerByte(uint32_t number) const;
  /// Values that the way back needs of dear operators, through those that are not.
  std::vector<bool> dearValues(const Keeping &keeping) const;
  /// Cuts between the two operators, the last level's included; gives where the last leaf begins.
  size_t cutsBetween(const Keeping &keeping, size_t first, size_t last,
                     std::vector<size_t> &cuts) const;

  const Tape &tape_;
  std::vector<uint32_t> definition_, lastForward_; // of values, by operator
  std::vector<int64_t> written_;                   // bytes before each operator of the way forward
  std::vector<std::vector<uint32_t>> least_;       // cuts with the least alive, in runs of 2^i
  std::vector<int64_t> alive_;                     // bytes, behind each operator
  double forwardCost_ = 0;
};

} // namespace tensmith::vm
