// Random numbers without a state: Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011).
//
// The numbers of element i are a function of the seed and of i alone, so that any part of a tensor
// can be computed by any thread, in any order, again. Compiled kernels and the reference evaluator
// derive uniform and normal numbers in the way written here, and so agree.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace tensmith {

using PhiloxWords = std::array<uint32_t, 4>;

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;

constexpr PhiloxWords philox(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    uint64_t product0 = uint64_t(kPhiloxMultiplier0) * counter[0];
    uint64_t product1 = uint64_t(kPhiloxMultiplier1) * counter[2];
    counter = {uint32_t(product1 >> 32) ^ counter[1] ^ key0, uint32_t(product1),
               uint32_t(product0 >> 32) ^ counter[3] ^ key1, uint32_t(product0)};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

/// The four words of element `index`: the seed is the key, the index the low half of the counter.
constexpr PhiloxWords philoxAt(uint64_t seed, uint64_t index) {
  return philox({uint32_t(index), uint32_t(index >> 32), 0, 0}, uint32_t(seed),
                uint32_t(seed >> 32));
}

/// In [0, 1), a multiple of 2^-24: exact in F32, so never rounded up to 1.
constexpr double uniformAt(uint64_t seed, uint64_t index) {
  return double(philoxAt(seed, index)[0] >> 8) * 0x1p-24;
}

/// In [0, 1), a multiple of 2^-53, for results of type F64.
constexpr double uniform53At(uint64_t seed, uint64_t index) {
  PhiloxWords words = philoxAt(seed, index);
  return (double(words[0] >> 5) * 0x1p26 + double(words[1] >> 6)) * 0x1p-53;
}

/// One seed of two numbers, of which each changes all of it (splitmix64's finaliser).
constexpr uint64_t mixedSeed(uint64_t seed, uint64_t other) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + other * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Mean 0, deviation 1 (Box and Muller's transform of the first two words).
inline double normalAt(uint64_t seed, uint64_t index) {
  PhiloxWords words = philoxAt(seed, index);
  double radius = std::sqrt(-2 * std::log((double(words[0]) + 1) * 0x1p-32));
  return radius * std::cos(2 * 3.14159265358979323846 * (double(words[1]) * 0x1p-32));
}

} // namespace tensmith
