// Everything random about a run: functions of its seed and of what they are for alone, so that a
// run that goes on from a checkpoint draws what the uninterrupted one would have.
#pragma once

#include <cstdint>
#include <vector>

namespace tensmith::train {

enum class Stream : uint32_t { Order = 1, Split = 2, Crop = 3, Flip = 4 };

/// 64 random bits for number `index` of what `number` (an epoch) names.
uint64_t randomBits(uint64_t seed, Stream stream, uint32_t number, uint64_t index);

/// In [0, count), every number once.
std::vector<int64_t> permutation(int64_t count, uint64_t seed, Stream stream, uint32_t number);

struct Split {
  std::vector<int64_t> train, validation;
};
/// `part` of the samples, at random, are for validation; both in the order of the data.
Split split(int64_t count, double part, uint64_t seed);

/// The samples of an epoch, in the order in which they come.
std::vector<int64_t> orderOf(const std::vector<int64_t> &samples, bool shuffle, uint64_t seed,
                             uint32_t epoch);

/// One of several processes.
struct Part {
  int64_t number = 0, of = 1;
};
/// Of each whole batch of all processes the samples of one, which follow one another.
std::vector<int64_t> partOfBatches(const std::vector<int64_t> &order, int64_t batch,
                                   const Part &part);
/// One process's of all samples; they differ by one at most.
std::vector<int64_t> partOfAll(const std::vector<int64_t> &samples, const Part &part);

} // namespace tensmith::train
