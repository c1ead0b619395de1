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
      find(feature, memory_[thread], found[thread]);
    });
  }
  for (std::vector<Candidate> &ofThread : found)
    for (size_t slot = 0; slot < nodes.size(); ++slot)
      (*tree_.nodes)[nodes[slot]].best.take(std::move(ofThread[slot]));
  return {};
}

void SparseFinder::find(int64_t feature, Memory &memory, std::vector<Candidate> &best) const {
  int64_t bins = cuts_.bins(feature), marks = SparseHistogram::touchedSize(bins);
  auto slots = int64_t(level_.size());
  if (int64_t(memory.sums.size()) < bins * slots)
    memory.sums.resize(bins * slots);
  if (int64_t(memory.touched.size()) < marks * slots)
    memory.touched.resize(marks * slots);
  GradientSum *sums = memory.sums.data();
  uint8_t *touched = memory.touched.data();
  eachEntry(feature, [=](int64_t slot, int64_t bin, const Gradient &gradient) {
    sums[slot * bins + bin].add(gradient);
    touched[slot * marks + bin] = 1;
  });
  for (int64_t slot = 0; slot < slots; ++slot) {
    SparseHistogram histogram{sums + slot * bins, touched + slot * marks};
    const GrowingNode &node = *level_[slot];
    if (node.allows(feature))
      scanHistogram(histogram, binsOf(cuts_, feature), int32_t(feature), node, *tree_.rules,
                    limits_, best[slot]);
    else
      clear(histogram, int32_t(bins));
  }
}

/// As above, with the histograms of some features summed over the processes in between.
Status SparseFinder::findTogether(std::vector<std::vector<Candidate>> &found) {
  std::vector<GradientSum> all;
  for (int64_t first = 0; first < bins_.features(); first += kTogether) {
    int64_t last = std::min(first + kTogether, bins_.features());
    auto place = [&](int64_t feature) {
      return (cuts_.begin[feature] - cuts_.begin[first]) * int64_t(level_.size());
    };
    all.assign(place(last), GradientSum());
    threads_.parts(last - first, [&](int64_t at, int) {
      GradientSum *sums = all.data() + place(first + at);
      int64_t bins = cuts_.bins(first + at);
      eachEntry(first + at, [=](int64_t slot, int64_t bin, const Gradient &gradient) {
        sums[slot * bins + bin].add(gradient);
      });
    });
    auto *sums = reinterpret_cast<double *>(all.data());
    if (Status status = exchange_->sum({sums, 2 * all.size()}); !status.ok())
      return status;
    threads_.parts(last - first, [&](int64_t at, int thread) {
      int64_t feature = first + at;
      const GradientSum *own = all.data() + place(feature);
      for (size_t slot = 0; slot < level_.size(); ++slot, own += cuts_.bins(feature))
        if (level_[slot]->allows(feature))
          scanHistogram(own, binsOf(cuts_, feature), int32_t(feature), *level_[slot], *tree_.rules,
                        limits_, found[thread][slot]);
    });
  }
  return {};
}

/// add(slot, bin, gradient) for the feature's entries whose rows are in a node of the level.
template <typename Add> void SparseFinder::eachEntry(int64_t feature, Add add) const {
  std::span<const SparseBins::Entry> entries = bins_.column(feature);
  const RowState *states = states_.data();
  size_t count = entries.size(), at = 0;
  auto take = [&](const SparseBins::Entry &entry) {
    const RowState &row = states[entry.row];
    if (row.slot >= 0)
      add(row.slot, entry.bin, row.gradient);
  };
  if (prefetches_)
    for (; at + kAhead < count; ++at) {
      __builtin_prefetch(&states[entries[at + kAhead].row]);
      take(entries[at]);
    }
  for (; at < count; ++at)
    take(entries[at]);
}

void SparseFinder::sides(const Candidate &split, std::span<const uint32_t> rows,
                         uint8_t *left) const {
  bins_.look(split.feature, leftBinsOf(split, cuts_).data(), split.missingLeft, rows, left);
}

} // namespace tensmith::trees
