// Merging, pruning and queries of summaries, as the appendix of the XGBoost paper defines them.
#include "trees/QuantileSketch.h"

#include <algorithm>
#include <cmath>

namespace tensmith::trees {

QuantileSummary::QuantileSummary(std::vector<std::pair<float, float>> &values) {
  std::sort(values.begin(), values.end());
  double before = 0;
  for (size_t at = 0; at < values.size();) {
    float value = values[at].first;
    double weight = 0;
    for (; at < values.size() && values[at].first == value; ++at)
      weight += values[at].second;
    entries_.push_back({value, before, before + weight, weight});
    before += weight;
  }
}

QuantileSummary QuantileSummary::ofEntries(std::span<const double> numbers) {
  QuantileSummary result;
  for (size_t at = 0; at + 4 <= numbers.size(); at += 4)
    result.entries_.push_back(
        {float(numbers[at]), numbers[at + 1], numbers[at + 2], numbers[at + 3]});
  return result;
}

QuantileSummary QuantileSummary::merged(const QuantileSummary &a, const QuantileSummary &b) {
  QuantileSummary result;
  result.entries_.reserve(a.entries_.size() + b.entries_.size());
  auto one = a.entries_.begin(), other = b.entries_.begin();
  double belowOne = 0, belowOther = 0; // least ranks of what comes next
  while (one != a.entries_.end() || other != b.entries_.end()) {
    bool takesOne =
        other == b.entries_.end() || (one != a.entries_.end() && one->value <= other->value);
    bool takesOther =
        one == a.entries_.end() || (other != b.entries_.end() && other->value <= one->value);
    if (takesOne && takesOther) {
      result.entries_.push_back({one->value, one->least + other->least, one->most + other->most,
                                 one->weight + other->weight});
    } else if (takesOne) {
      double most = other == b.entries_.end() ? b.weight() : other->previousMost();
      result.entries_.push_back(
          {one->value, one->least + belowOther, one->most + most, one->weight});
    } else {
      double most = one == a.entries_.end() ? a.weight() : one->previousMost();
      result.entries_.push_back(
          {other->value, other->least + belowOne, other->most + most, other->weight});
    }
    if (takesOne)
      belowOne = (one++)->nextLeast();
    if (takesOther)
      belowOther = (other++)->nextLeast();
  }
  return result;
}

const QuantileSummary::Entry &QuantileSummary::at(double rank) const {
  double twice = 2 * rank;
  auto above = std::upper_bound(
      entries_.begin(), entries_.end(), twice,
      [](double sought, const Entry &entry) { return sought < entry.least + entry.most; });
  if (above == entries_.begin())
    return entries_.front();
  if (above == entries_.end())
    return entries_.back();
  const Entry &below = *(above - 1);
  return twice < below.nextLeast() + above->previousMost() ? below : *above;
}

QuantileSummary QuantileSummary::pruned(int64_t parts) const {
  if (int64_t(entries_.size()) <= parts + 1)
    return *this;
  QuantileSummary result;
  for (int64_t part = 0; part <= parts; ++part) {
    const Entry &entry = part == 0       ? entries_.front()
                         : part == parts ? entries_.back()
                                         : at(weight() * double(part) / double(parts));
    if (result.isEmpty() || entry.value > result.entries_.back().value)
      result.entries_.push_back(entry);
  }
  return result;
}

double QuantileSummary::error() const {
  double worst = 0;
  for (size_t at = 0; at < entries_.size(); ++at) {
    worst = std::max(worst, entries_[at].most - entries_[at].least - entries_[at].weight);
    if (at + 1 < entries_.size())
      worst = std::max(worst, entries_[at + 1].previousMost() - entries_[at].nextLeast());
  }
  return weight() > 0 ? worst / 2 / weight() : 0;
}

namespace {

constexpr double kMostParts = 1 << 24;

/// Levels that n values need with blocks of 2 b.
int64_t levelsFor(int64_t values, int64_t parts) {
  int64_t levels = 1;
  while ((parts << levels) < values && levels < 40)
    ++levels;
  return levels;
}

} // namespace

QuantileSketch::QuantileSketch(double eps, int64_t values) : plannedLevels_(1) {
  for (int64_t levels = 40; levels >= 1; --levels) { // the fewest levels that suffice
    auto parts = int64_t(std::min(kMostParts, std::ceil(double(levels) / eps)));
    if (levelsFor(values, parts) <= levels)
      plannedLevels_ = levels;
  }
  parts_ = int64_t(std::min(kMostParts, std::ceil(double(plannedLevels_) / eps)));
}

void QuantileSketch::add(float value, float weight) {
  if (!(weight > 0))
    return;
  block_.emplace_back(value, weight);
  if (int64_t(block_.size()) == 2 * parts_)
    closeBlock();
}

void QuantileSketch::closeBlock() {
  QuantileSummary exact(block_);
  block_.clear();
  carry(exact.pruned(parts_), 0);
}

/// As in a binary counter: two of a level make one of the next.
void QuantileSketch::carry(QuantileSummary summary, size_t level) {
  for (; level < levels_.size() && !levels_[level].isEmpty(); ++level) {
    summary = QuantileSummary::merged(levels_[level], summary).pruned(parts_);
    levels_[level] = {};
  }
  if (level >= levels_.size())
    levels_.resize(level + 1);
  levels_[level] = std::move(summary);
}

void QuantileSketch::merge(const QuantileSketch &other) {
  for (size_t level = 0; level < other.levels_.size(); ++level)
    if (!other.levels_[level].isEmpty())
      carry(other.levels_[level], level);
  for (const auto &[value, weight] : other.block_)
    add(value, weight);
}

QuantileSummary QuantileSketch::summary() const {
  std::vector<std::pair<float, float>> block = block_;
  QuantileSummary result(block);
  for (const QuantileSummary &level : levels_)
    if (!level.isEmpty())
      result = QuantileSummary::merged(result, level);
  return result;
}

double QuantileSketch::bound() const { return double(levels_.size()) / double(parts_); }

int64_t QuantileSketch::mostEntries() const {
  return (plannedLevels_ + 1) * (parts_ + 1) + 2 * parts_;
}

int64_t QuantileSketch::entries() const {
  int64_t count = int64_t(block_.size());
  for (const QuantileSummary &level : levels_)
    count += int64_t(level.entries().size());
  return count;
}

std::vector<float> proposals(const QuantileSummary &summary, int64_t most) {
  std::vector<float> values;
  const std::vector<QuantileSummary::Entry> &entries = summary.entries();
  if (int64_t(entries.size()) <= most) {
    for (size_t at = 1; at < entries.size(); ++at)
      values.push_back(entries[at].value);
    return values;
  }
  for (int64_t part = 1; part < most; ++part) {
    float value = summary.at(summary.weight() * double(part) / double(most)).value;
    if (value > entries.front().value && (values.empty() || value > values.back()))
      values.push_back(value);
  }
  return values;
}

} // namespace tensmith::trees
