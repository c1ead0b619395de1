// Where the numbers of random graphs come from: one seeded stream of choices, and tensors that are
// a function of a type, a shape, a kind of values and a seed alone.
//
// A graph that is written out names its inputs by kind and seed and not by their elements, so that
// it can be replayed, and still can after a reducer has made it smaller.
#pragma once

#include "base/HostTensor.h"

#include <random>
#include <string_view>

namespace tensmith::random_graphs {

class Random {
public:
  explicit Random(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15 + 1) {}

  uint64_t next() { return engine_(); }
  /// In [low, high].
  int64_t integer(int64_t low, int64_t high) {
    return low + int64_t(next() % uint64_t(high - low + 1));
  }
  double real() { return double(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return real() < probability; }
  template <typename Range> const auto &among(const Range &values) {
    return std::begin(values)[integer(0, int64_t(std::size(values)) - 1)];
  }
  template <typename T> T of(std::initializer_list<T> values) {
    return values.begin()[integer(0, int64_t(values.size()) - 1)];
  }

private:
  std::mt19937_64 engine_; // the standard fixes its sequence, unlike that of its distributions
};

/// Kinds of values: "small" (in [-2, 2], exact zeros now and then), "positive" ([0.25, 2]),
/// "powers" (of two),
/// "integers" ([-8, 8] of floats too), "wide" (all bits of integers; large and tiny floats),
/// "special" (infinities, NaN, signed zeros, subnormals among small ones) and "index:N" ([0, N)).
/// Unsigned types take what they can hold of it.
HostTensor drawTensor(DataType type, Shape shape, std::string_view kind, uint64_t seed);

} // namespace tensmith::random_graphs
