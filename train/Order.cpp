// Philox's counter says what a number is for: index, epoch, stream; its key is the run's seed.
#include "train/Order.h"

#include "base/Philox.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tensmith::train {

uint64_t randomBits(uint64_t seed, Stream stream, uint32_t number, uint64_t index) {
  // The stream stands where philoxAt's counter is 0, so that no kernel draws the same.
  PhiloxWords words = philox({uint32_t(index), uint32_t(index >> 32), number, uint32_t(stream)},
                             uint32_t(seed), uint32_t(seed >> 32));
  return uint64_t(words[0]) << 32 | words[1];
}

std::vector<int64_t> permutation(int64_t count, uint64_t seed, Stream stream, uint32_t number) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  // Fisher and Yates; the bias of the multiplication is below count / 2^64.
  for (size_t left = order.size(); left > 1; --left) {
    auto wide = static_cast<unsigned __int128>(randomBits(seed, stream, number, left)) * left;
    std::swap(order[left - 1], order[size_t(wide >> 64)]);
  }
  return order;
}

Split split(int64_t count, double part, uint64_t seed) {
  Split result;
  auto apart = int64_t(std::llround(part * double(count)));
  std::vector<int64_t> order = permutation(count, seed, Stream::Split, 0);
  result.validation.assign(order.begin(), order.begin() + apart);
  result.train.assign(order.begin() + apart, order.end());
  std::ranges::sort(result.validation);
  std::ranges::sort(result.train);
  return result;
}

std::vector<int64_t> orderOf(const std::vector<int64_t> &samples, bool shuffle, uint64_t seed,
                             uint32_t epoch) {
  if (!shuffle)
    return samples;
  std::vector<int64_t> order = permutation(int64_t(samples.size()), seed, Stream::Order, epoch);
  for (int64_t &index : order)
    index = samples[size_t(index)];
  return order;
}

std::vector<int64_t> partOfBatches(const std::vector<int64_t> &order, int64_t batch,
                                   const Part &part) {
  if (part.of == 1)
    return order;
  std::vector<int64_t> own;
  int64_t size = batch / part.of;
  for (int64_t begin = 0; begin + batch <= int64_t(order.size()); begin += batch) {
    auto first = order.begin() + begin + part.number * size;
    own.insert(own.end(), first, first + size);
  }
  return own;
}

std::vector<int64_t> partOfAll(const std::vector<int64_t> &samples, const Part &part) {
  auto count = int64_t(samples.size());
  return {samples.begin() + count * part.number / part.of,
          samples.begin() + count * (part.number + 1) / part.of};
}

} // namespace tensmith::train
