// DART: each round is trained with some of the trees before it left out (Rashmi and Gilad-Bachrach,
// "DART: Dropouts meet Multiple Additive Regression Trees", AISTATS 2015).
//
// With k trees left out, the new ones count 1 / (k + learning rate), and those left out k / (k +
// learning rate) times what they did, so that the sum stays about as large.
#pragma once

#include "trees/Forest.h"
#include "trees/Parameters.h"

#include <cstdint>
#include <vector>

namespace tensmith::trees {

class Dropping {
public:
  explicit Dropping(const Parameters &parameters) : parameters_(parameters) {}

  bool isOn() const { return parameters_.booster == "dart"; }
  /// Draws which of so many trees are left out in the round.
  void draw(size_t trees, int64_t round);
  /// The trees' scales as they were before that round, of a training that began with those given
  /// and with round `first`. Later rounds scale trees again.
  std::vector<float> scalesBefore(int64_t round, std::vector<float> scales, int64_t first,
                                  int64_t channels);
  const std::vector<int64_t> &dropped() const { return dropped_; }
  float scaleOfNew() const;
  float factorOfDropped() const;

private:
  const Parameters &parameters_;
  std::vector<int64_t> dropped_;
};

} // namespace tensmith::trees
