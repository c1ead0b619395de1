// Proposals and histograms over sorted columns, a thread a column.
#include "trees/ApproxFinder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tensmith::trees {

namespace {

constexpr double kFiner = 8; // the sketch's error is that part of a bin

} // namespace

ApproxFinder::ApproxFinder(const Matrix &matrix, const Parameters &parameters, Threads &threads)
    : matrix_(matrix), columns_(matrix, threads), threads_(threads),
      candidates_(parameters.maxBins), isLocal_(parameters.proposals == "local"),
      limits_{parameters.oneHotCategories, parameters.splitCategories}, slot_(matrix.rows) {}

Status ApproxFinder::begin(const GrowingTree &tree) {
  tree_ = tree;
  std::fill(slot_.begin(), slot_.end(), 0);
  if (isLocal_)
    return {};
  global_.resize(columns_.columns());
  threads_.parts(columns_.columns(), [&](int64_t feature, int) {
    global_[feature] = std::move(propose(feature, 1)[0]);
  });
  return {};
}

/// For each node of the level, from its rows.
std::vector<ApproxFinder::Proposed> ApproxFinder::propose(int64_t feature, size_t slots) const {
  std::vector<Proposed> proposed(slots);
  std::span<const SortedColumns::Entry> column = columns_.column(feature);
  if (int64_t categories = matrix_.categoriesOf(feature)) {
    std::vector<float> each(categories);
    std::iota(each.begin(), each.end(), 0.f);
    std::fill(proposed.begin(), proposed.end(), Proposed{each, -1});
    return proposed;
  }
  std::vector<QuantileSketch> sketches(
      slots, QuantileSketch(1 / (kFiner * double(candidates_)), int64_t(column.size())));
  for (const SortedColumns::Entry &entry : column)
    if (int32_t slot = slot_[entry.row]; slot >= 0)
      sketches[slot].add(entry.value, tree_.gradients[entry.row].second);
  for (size_t slot = 0; slot < slots; ++slot) {
    QuantileSummary summary = sketches[slot].summary();
    Proposed &to = proposed[slot];
    to.cuts = proposals(summary, candidates_);
    float lowest = summary.isEmpty() ? 0 : summary.entries().front().value;
    to.least = lowest - (std::fabs(lowest) + 1e-5f);
    float most = column.empty() ? 0 : column.back().value;
    float last = most + (std::fabs(most) + 1e-5f);
    to.cuts.push_back(std::isfinite(last) ? last : HUGE_VALF);
  }
  return proposed;
}

Status ApproxFinder::find(std::span<const int32_t> nodes) {
  level_.clear();
  std::fill(slot_.begin(), slot_.end(), -1);
  for (size_t slot = 0; slot < nodes.size(); ++slot) {
    level_.push_back(&(*tree_.nodes)[nodes[slot]]);
    for (uint32_t row : tree_.rows.subspan(level_[slot]->begin, level_[slot]->rows()))
      slot_[row] = int32_t(slot);
  }
  std::vector<std::vector<Candidate>> found(threads_.count(), std::vector<Candidate>(nodes.size()));
  threads_.parts(columns_.columns(),
                 [&](int64_t feature, int thread) { findIn(feature, found[thread]); });
  for (std::vector<Candidate> &ofThread : found)
    for (size_t slot = 0; slot < nodes.size(); ++slot)
      (*tree_.nodes)[nodes[slot]].best.take(std::move(ofThread[slot]));
  return {};
}

void ApproxFinder::findIn(int64_t feature, std::vector<Candidate> &best) {
  std::vector<Proposed> local;
  if (isLocal_)
    local = propose(feature, level_.size());
  auto of = [&](size_t slot) -> const Proposed & {
    return isLocal_ ? local[slot] : global_[feature];
  };
  std::vector<size_t> begin(level_.size() + 1, 0);
  for (size_t slot = 0; slot < level_.size(); ++slot)
    begin[slot + 1] = begin[slot] + of(slot).cuts.size();
  std::vector<GradientSum> histograms(begin.back());
  std::vector<size_t> bin(begin.begin(), begin.end() - 1);
  bool isCategorical = matrix_.categoriesOf(feature) != 0;
  for (const SortedColumns::Entry &entry : columns_.column(feature)) {
    int32_t slot = slot_[entry.row];
    if (slot < 0)
      continue;
    const std::vector<float> &cuts = of(slot).cuts;
    if (isCategorical)
      bin[slot] = begin[slot] + size_t(entry.value);
    else
      while (bin[slot] + 1 < begin[slot + 1] && entry.value >= cuts[bin[slot] - begin[slot]])
        ++bin[slot];
    histograms[bin[slot]].add(tree_.gradients[entry.row]);
  }
  for (size_t slot = 0; slot < level_.size(); ++slot)
    if (level_[slot]->allows(feature))
      scanHistogram(histograms.data() + begin[slot], {of(slot).cuts, of(slot).least, isCategorical},
                    int32_t(feature), *level_[slot], *tree_.rules, limits_, best[slot]);
}

void ApproxFinder::sides(const Candidate &split, std::span<const uint32_t> rows,
                         uint8_t *left) const {
  sidesByValue(matrix_, split.missingLeft, split.feature, split.threshold, split.categories, rows,
               left);
}

} // namespace tensmith::trees
