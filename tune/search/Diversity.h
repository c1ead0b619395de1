// Which of the best-looking points to measure together: fast ones, that differ.
//
// The objective is AutoTVM's (Chen et al., 2018, equation 3): the sum of the scores, and for each
// choice how many different values the set has of it, weighed by alpha. It is submodular, and so
// the greedy set has at least 1 - 1/e of what the best one gains.
#pragma once

#include "tune/SearchSpace.h"

namespace tensmith::tune {

struct Scored {
  Configuration configuration;
  double score;
};

/// Of a set, as above.
double diverseValue(std::span<const Scored> set, double alpha);

/// The numbers of `count` candidates, the first of which is the best, each next one what gains
/// most.
std::vector<size_t> greedyDiverse(std::span<const Scored> candidates, size_t count, double alpha);

} // namespace tensmith::tune
