// Random choices of the mutators, all from the seed that libFuzzer gives, so that it can repeat
// them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>

namespace tensmith::fuzz {

class Draw {
public:
  explicit Draw(uint32_t seed) : engine_(seed) {}

  /// In [0, count); 0 of nothing.
  uint64_t below(uint64_t count) { return count ? bits() % count : 0; }
  bool oneIn(uint64_t count) { return below(count) == 0; }
  uint64_t bits() { return (uint64_t(engine_()) << 32) | engine_(); }

  template <typename List> auto &among(List &list) {
    return *std::next(std::begin(list), int64_t(below(std::size(list))));
  }

  /// Mostly small; now and then at an edge of what some type or limit holds.
  int64_t integer() {
    static constexpr std::array<int64_t, 24> kEdges = {-1,
                                                       0,
                                                       1,
                                                       2,
                                                       3,
                                                       4,
                                                       5,
                                                       7,
                                                       8,
                                                       16,
                                                       17,
                                                       31,
                                                       64,
                                                       127,
                                                       255,
                                                       1000,
                                                       65536,
                                                       1 << 20,
                                                       INT32_MAX,
                                                       int64_t(1) << 31,
                                                       int64_t(1) << 32,
                                                       int64_t(1) << 62,
                                                       INT64_MAX,
                                                       INT64_MIN};
    if (oneIn(3))
      return int64_t(below(9)) - 3;
    int64_t value = among(kEdges);
    return oneIn(8) ? int64_t(-uint64_t(value)) : value;
  }

  double real() {
    static constexpr std::array<double, 12> kEdges = {0,    -0.0,  1,      -1,  0.5, 1e-45,
                                                      1e38, 1e300, -1e300, 2.5, 3,   65504};
    return oneIn(12) ? __builtin_nan("") : oneIn(12) ? __builtin_inf() : among(kEdges);
  }

private:
  std::mt19937 engine_;
};

/// A mutator of files that are bytes: `changed` gives other ones, of at most `maxSize`; of more
/// they stay as they are.
template <typename Change>
size_t changeBytes(uint8_t *data, size_t size, size_t maxSize, unsigned int seed, Change changed) {
  Draw draw(seed);
  std::string result = changed({reinterpret_cast<const char *>(data), size}, maxSize, draw);
  if (result.size() > maxSize)
    return size;
  std::memcpy(data, result.data(), result.size());
  return result.size();
}

} // namespace tensmith::fuzz
