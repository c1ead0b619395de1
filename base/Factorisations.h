// A size as a product of several factors: how often each loop of a tiled one runs, from outside in.
//
// All of them are listed in one order, which begins with the one that has the whole size in its
// first factor. As a number a factorisation is its factors behind the first, in groups of five
// decimal digits: 512 as 8 * 4 * 2 * 8 is 40000200008. (Zhang et al., Compiler-Level Matrix
// Multiplication Optimization for Deep Learning, 2019, search over these.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tensmith {

using Factors = std::vector<int64_t>;

/// Sizes beyond it have no such numbers.
inline constexpr int64_t kMostFactor = 99'999;
/// So many groups fit a double, which JSON has.
inline constexpr size_t kMostFactors = 4;

/// `size` is from 1 to kMostFactor, `parts` from 1 to kMostFactors.
std::vector<Factors> factorisations(int64_t size, size_t parts);
int64_t numberOf(const Factors &factors);
/// The factors behind the first that the number says, of so many parts. They may be those of no
/// size: 0, or too many digits in front.
Factors factorsBehindFirst(int64_t number, size_t parts);
/// Nothing where the number is none of the size's.
std::optional<Factors> factorsOf(int64_t number, int64_t size, size_t parts);
/// Those from which one prime factor has gone from one part to another.
std::vector<Factors> neighboursOf(const Factors &factors);

} // namespace tensmith
