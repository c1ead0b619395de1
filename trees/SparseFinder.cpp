// Histograms of one feature for all nodes of a level.
#include "trees/SparseFinder.h"

#include <algorithm>

namespace tensmith::trees {

namespace {

constexpr size_t kAhead = 16;     // entries
constexpr int64_t kTogether = 64; // features whose histograms processes sum at once

} // namespace

SparseFinder::SparseFinder(const Matrix &matrix, const Cuts &cuts, const Parameters &parameters,
                           Threads &threads, Exchange *exchange)
    : cuts_(cuts), bins_(matrix, cuts, threads), threads_(threads), exchange_(exchange),
      prefetches_(parameters.prefetch),
      limits_{parameters.oneHotCategories, parameters.splitCategories}, states_(matrix.rows),
      memory_(threads.count()) {}

Status SparseFinder::begin(const GrowingTree &tree) {
  tree_ = tree;
  threads_.ranges(bins_.rows(), 1 << 14, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      states_[row] = {tree.gradients[row], -1};
  });
  return {};
}

Status SparseFinder::find(std::span<const int32_t> nodes) {
  level_.clear();
  threads_.ranges(bins_.rows(), 1 << 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      states_[row].slot = -1;
  });
  for (int32_t number : nodes)
    level_.push_back(&(*tree_.nodes)[number]);
  threads_.parts(int64_t(nodes.size()), [&](int64_t slot, int) {
    for (uint32_t row : tree_.rows.subspan(level_[slot]->begin, level_[slot]->rows()))
      states_[row].slot = int32_t(slot);
  });
  std::vector<std::vector<Candidate>> found(threads_.count(), std::vector<Candidate>(nodes.size()));
  if (exchange_) {
    if (Status status = findTogether(found); !status.ok())
      return status;
  } else {
    threads_.parts(bins_.features(), [&](int64_t feature, int thread) {
      size_t size = cuts_.bins(feature) * level_.size();
      if (memory_[thread].size() < size)
        memory_[thread].resize(size);
      accumulate(feature, memory_[thread].data());
      scan(feature, memory_[thread].data(), found[thread]);
    });
  }
  for (std::vector<Candidate> &ofThread : found)
    for (size_t slot = 0; slot < nodes.size(); ++slot)
      (*tree_.nodes)[nodes[slot]].best.take(std::move(ofThread[slot]));
  return {};
}

/// As above, with the histograms of some features summed over the processes in between.
Status SparseFinder::findTogether(std::vector<std::vector<Candidate>> &found) {
  std::vector<GradientSum> all;
  for (int64_t first = 0; first < bins_.features(); first += kTogether) {
    int64_t last = std::min(first + kTogether, bins_.features());
    auto place = [&](int64_t feature) {
      return (cuts_.begin[feature] - cuts_.begin[first]) * int64_t(level_.size());
    };
    all.resize(place(last));
    threads_.parts(last - first, [&](int64_t at, int) {
      accumulate(first + at, all.data() + place(first + at));
    });
    auto *sums = reinterpret_cast<double *>(all.data());
    if (Status status = exchange_->sum({sums, 2 * all.size()}); !status.ok())
      return status;
    threads_.parts(last - first, [&](int64_t at, int thread) {
      scan(first + at, all.data() + place(first + at), found[thread]);
    });
  }
  return {};
}

void SparseFinder::accumulate(int64_t feature, GradientSum *histograms) const {
  int64_t bins = cuts_.bins(feature);
  std::fill_n(histograms, bins * int64_t(level_.size()), GradientSum());
  std::span<const SparseBins::Entry> entries = bins_.column(feature);
  size_t count = entries.size(), at = 0;
  auto add = [&](const SparseBins::Entry &entry) {
    const RowState &row = states_[entry.row];
    if (row.slot >= 0)
      histograms[row.slot * bins + entry.bin].add(row.gradient);
  };
  if (prefetches_)
    for (; at + kAhead < count; ++at) {
      __builtin_prefetch(&states_[entries[at + kAhead].row]);
      add(entries[at]);
    }
  for (; at < count; ++at)
    add(entries[at]);
}

void SparseFinder::scan(int64_t feature, const GradientSum *histograms,
                        std::vector<Candidate> &best) const {
  for (size_t slot = 0; slot < level_.size(); ++slot)
    if (level_[slot]->allows(feature))
      scanHistogram(histograms + int64_t(slot) * cuts_.bins(feature), binsOf(cuts_, feature),
                    int32_t(feature), *level_[slot], *tree_.rules, limits_, best[slot]);
}

void SparseFinder::sides(const Candidate &split, std::span<const uint32_t> rows,
                         uint8_t *left) const {
  bins_.look(split.feature, leftBinsOf(split, cuts_).data(), split.missingLeft, rows, left);
}

} // namespace tensmith::trees
