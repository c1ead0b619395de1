// Spaces of several choices, some of which exist only by others: points by number, their count, and
// steps between them.
//
// A point is a row of digits, one for each choice: the number of its value, or kAbsent where an
// earlier digit has a value with which this choice does not exist. Points are counted as numbers of
// mixed radix are, the last digit fastest; each number below `size` is one point, and each point
// has one number. What the values mean is its user's matter: the choices of a kernel
// (compiler/kernel), the dimensions of a search (tune/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tensmith {

inline constexpr int32_t kAbsent = -1;
using Digits = std::vector<int32_t>;

class MixedRadix {
public:
  struct Digit {
    int32_t values;     // how many it has; 0: it never exists
    int32_t guard = -1; // the earlier digit that it depends on; -1: none
    std::vector<int32_t> guardValues = {};
  };

  void add(Digit digit) { digits_.push_back(std::move(digit)); }
  size_t length() const { return digits_.size(); }
  const Digit &operator[](size_t place) const { return digits_[place]; }

  /// At most 2^63.
  uint64_t size() const;
  /// `number` is below `size`.
  Digits at(uint64_t number) const;
  bool contains(const Digits &point) const;
  /// Without digits that don't exist in it, and 0 for those that do and were absent.
  Digits completed(Digits point) const;
  /// Those that differ in one digit, by one; and in what comes and goes with it.
  std::vector<Digits> neighbours(const Digits &point) const;

private:
  bool exists(size_t place, const Digits &before) const;
  bool guards(size_t place) const;
  /// How many points begin with `before`, which is as it was afterwards.
  uint64_t sizeBehind(Digits &before) const;

  std::vector<Digit> digits_;
};

} // namespace tensmith
