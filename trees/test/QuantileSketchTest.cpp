// The sketch's proven bounds, held against exact ranks: any order of merges, several kinds of
// weights.
#include "trees/QuantileSketch.h"

#include "trees/Sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace tensmith::trees;

namespace {

struct Values {
  std::vector<std::pair<float, float>> pairs;
  std::vector<double> before; // by sorted place
  double total = 0;

  void sort() {
    std::sort(pairs.begin(), pairs.end());
    before.assign(1, 0);
    for (const auto &[value, weight] : pairs)
      before.push_back(total += weight);
  }
  /// The weight below, and up to, a value.
  std::pair<double, double> ranks(float value) const {
    auto below = [](const std::pair<float, float> &pair, float sought) {
      return pair.first < sought;
    };
    auto above = [](float sought, const std::pair<float, float> &pair) {
      return sought < pair.first;
    };
    return {before[std::lower_bound(pairs.begin(), pairs.end(), value, below) - pairs.begin()],
            before[std::upper_bound(pairs.begin(), pairs.end(), value, above) - pairs.begin()]};
  }
};

float weightOf(int kind, uint64_t draw) {
  double unit = unitOf(draw);
  switch (kind % 4) {
  case 0:
    return 1;
  case 1:
    return float(unit);
  case 2:
    return float(std::exp(8 * unit)); // some count thousands of times as much as others
  default:
    return unit < 0.9 ? 0 : float(unit);
  }
}

/// Values in 64 sketches, merged pair by pair as drawn.
QuantileSketch mergedAtRandom(double eps, int kind, int64_t count, Values &values) {
  std::vector<QuantileSketch> sketches(64, QuantileSketch(eps, count));
  for (int64_t at = 0; at < count; ++at) {
    uint64_t draw = mixed(kind + 100, at);
    // Some values come often, others once; sketches get unequal shares.
    float value = kind % 3 == 0 ? float(draw % 50) : float(std::sinh(20 * unitOf(draw) - 10));
    float weight = weightOf(kind, mixed(draw, 1));
    sketches[mixed(draw, 2) % (1 + mixed(draw, 3) % 64)].add(value, weight);
    if (weight > 0)
      values.pairs.emplace_back(value, weight);
  }
  values.sort();
  for (uint64_t step = 0; sketches.size() > 1; ++step) {
    size_t a = mixed(kind, step) % sketches.size(),
           b = mixed(kind + 1, step) % (sketches.size() - 1);
    std::swap(sketches[a], sketches.back());
    sketches[b].merge(sketches.back());
    sketches.pop_back();
  }
  return sketches[0];
}

TEST(QuantileSketch, RanksAreWithinEpsInAnyTreeOfMerges) {
  for (double eps : {0.1, 0.01, 0.001})
    for (int kind = 0; kind < 6; ++kind) {
      Values values;
      QuantileSketch sketch = mergedAtRandom(eps, kind, 60000, values);
      QuantileSummary summary = sketch.summary();
      EXPECT_LE(sketch.bound(), eps);
      EXPECT_LE(sketch.entries(), sketch.mostEntries());
      EXPECT_NEAR(summary.weight(), values.total, 1e-6 * values.total);
      EXPECT_LE(summary.error(), eps * (1 + 1e-6));
      for (int part = 0; part <= 200; ++part) {
        double rank = values.total * part / 200;
        auto [below, upTo] = values.ranks(summary.at(rank).value);
        double off = std::max({0., below - rank, rank - upTo});
        EXPECT_LE(off, eps * values.total * (1 + 1e-6)) << eps << " " << kind << " " << part;
      }
    }
}

TEST(QuantileSketch, BoundsOfEntriesHold) {
  Values values;
  QuantileSummary summary = mergedAtRandom(0.02, 2, 40000, values).summary();
  double slack = 1e-6 * values.total; // the sums are rounded
  for (const QuantileSummary::Entry &entry : summary.entries()) {
    auto [below, upTo] = values.ranks(entry.value);
    EXPECT_LE(entry.least, below + slack);
    EXPECT_GE(entry.most, upTo - slack);
  }
}

TEST(QuantileSketch, PruningAddsOneOverParts) {
  std::vector<std::pair<float, float>> pairs;
  for (uint64_t at = 0; at < 5000; ++at)
    pairs.emplace_back(float(unitOf(mixed(5, at))), float(unitOf(mixed(6, at))));
  QuantileSummary exact(pairs);
  for (int64_t parts : {7, 40, 300}) {
    QuantileSummary pruned = exact.pruned(parts);
    EXPECT_LE(int64_t(pruned.entries().size()), parts + 1);
    EXPECT_LE(pruned.error(), exact.error() + 1. / double(parts));
  }
}

TEST(QuantileSketch, NothingAndOneValue) {
  QuantileSketch sketch(0.01, 100);
  EXPECT_TRUE(sketch.summary().isEmpty());
  EXPECT_TRUE(proposals(sketch.summary(), 10).empty());
  sketch.add(3, 0); // counts nothing
  EXPECT_TRUE(sketch.summary().isEmpty());
  sketch.add(3, 2);
  EXPECT_EQ(sketch.summary().at(1).value, 3);
  EXPECT_TRUE(proposals(sketch.summary(), 10).empty());
}

} // namespace
