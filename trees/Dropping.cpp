// Which trees are left out, by hashes of the seed, the round and the tree.
#include "trees/Dropping.h"

#include "trees/Sampling.h"

namespace tensmith::trees {

void Dropping::draw(size_t trees, int64_t round) {
  dropped_.clear();
  if (!isOn() || trees == 0)
    return;
  uint64_t draw = mixed(mixed(uint64_t(parameters_.seed), 0xda27), uint64_t(round));
  if (unitOf(mixed(draw, 1)) < parameters_.skipDrop)
    return;
  for (size_t tree = 0; tree < trees; ++tree)
    if (unitOf(mixed(draw, 2 + tree)) < parameters_.dropRate)
      dropped_.push_back(int64_t(tree));
  if (dropped_.empty() && parameters_.dropOne)
    dropped_.push_back(int64_t(mixed(draw, 0) % trees));
}

std::vector<float> Dropping::scalesBefore(int64_t round, std::vector<float> scales, int64_t first,
                                          int64_t channels) {
  for (int64_t number = first; number < round; ++number) {
    draw(scales.size(), number);
    scales.insert(scales.end(), size_t(channels), scaleOfNew());
    for (int64_t tree : dropped_)
      scales[size_t(tree)] *= factorOfDropped();
  }
  return scales;
}

float Dropping::scaleOfNew() const {
  return dropped_.empty() ? 1 : float(1 / (double(dropped_.size()) + parameters_.learningRate));
}

float Dropping::factorOfDropped() const {
  double count = double(dropped_.size());
  return float(count / (count + parameters_.learningRate));
}

} // namespace tensmith::trees
