// Which rows and columns a tree, a level or a node is grown from.
//
// A draw is a hash of the seed and of what it is for (tree, level, node, row), not a stream: so it
// is the same whichever thread or process asks, and a row's does not depend on how rows are split
// over processes.
#pragma once

#include "trees/Parameters.h"

#include <cstdint>
#include <vector>

namespace tensmith::trees {

/// A well-mixed number of two (the finaliser of splitmix64; Steele, Lea, Flood, OOPSLA 2014).
inline uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
/// From 0 on, below 1.
inline double unitOf(uint64_t draw) { return double(draw >> 11) * 0x1p-53; }

inline bool isRowDrawn(uint64_t draw, int64_t row, double share) {
  return unitOf(mixed(draw, uint64_t(row))) < share;
}

class ColumnSampler {
public:
  ColumnSampler(const Parameters &parameters, int64_t features);

  void beginTree(uint64_t draw);
  bool isSampling() const { return isSampling_; }
  /// By feature, 1 where a node may be split by it.
  std::vector<uint8_t> columnsFor(int depth, int32_t node) const;

private:
  double byTree_, byLevel_, byNode_;
  int64_t features_;
  bool isSampling_;
  uint64_t draw_ = 0;
  std::vector<int32_t> ofTree_;
};

} // namespace tensmith::trees
