// Histograms of dense bins: the loop over rows, the sums over threads and processes, subtraction.
#include "trees/HistogramFinder.h"

#include "trees/RowHistogram.h"

#include <algorithm>

namespace tensmith::trees {

namespace {

constexpr int64_t kFeatureGrain = 8;

} // namespace

HistogramFinder::HistogramFinder(const Matrix &matrix, const Cuts &cuts,
                                 const Parameters &parameters, Threads &threads, Exchange *exchange)
    : cuts_(cuts), bins_(matrix, cuts, threads), threads_(threads), exchange_(exchange),
      subtracts_(parameters.subtraction), prefetches_(parameters.prefetch),
      limits_{parameters.oneHotCategories, parameters.splitCategories},
      size_(bins_.offsets().back()), scratch_(threads.count()) {}

GradientSum *HistogramFinder::allot(int32_t node) {
  if (free_.empty()) {
    memory_.emplace_back(size_);
    free_.push_back(&memory_.back());
  }
  if (int64_t(histograms_.size()) <= node)
    histograms_.resize(node + 1, nullptr);
  histograms_[node] = free_.back();
  free_.pop_back();
  return histograms_[node]->data();
}

void HistogramFinder::release(int32_t node) {
  if (node < 0 || node >= int32_t(histograms_.size()) || !histograms_[node])
    return;
  free_.push_back(histograms_[node]);
  histograms_[node] = nullptr;
}

Status HistogramFinder::begin(const GrowingTree &tree) {
  tree_ = tree;
  for (int32_t node = 0; node < int32_t(histograms_.size()); ++node)
    release(node);
  return {};
}

Status HistogramFinder::find(std::span<const int32_t> nodes) {
  std::vector<int32_t> built, derived; // derived[i] is the sibling of built[i], or -1
  const std::vector<GrowingNode> &all = *tree_.nodes;
  for (size_t at = 0; at < nodes.size();) {
    const GrowingNode &node = all[nodes[at]];
    bool isPair = at + 1 < nodes.size() && node.sibling == nodes[at + 1];
    if (!isPair || !subtracts_ || !histograms_[node.parent]) {
      built.push_back(nodes[at++]);
      derived.push_back(-1);
      continue;
    }
    const GrowingNode &other = all[nodes[at + 1]];
    // Processes must agree, and have other rows each.
    bool isFirst = exchange_ ? node.sum.second <= other.sum.second : node.rows() <= other.rows();
    built.push_back(isFirst ? node.number : other.number);
    derived.push_back(isFirst ? other.number : node.number);
    at += 2;
  }
  for (int32_t node : built)
    allot(node);
  if (Status status = build(built); !status.ok())
    return status;
  evaluate(built, derived);
  return {};
}

Status HistogramFinder::build(std::span<const int32_t> nodes) {
  int64_t rows = 0, parts = threads_.count();
  for (int32_t node : nodes)
    rows += (*tree_.nodes)[node].rows();
  std::vector<std::vector<Piece>> pieces(parts);
  int64_t before = 0;
  for (int32_t number : nodes) {
    const GrowingNode &node = (*tree_.nodes)[number];
    GradientSum *own = histograms_[number]->data();
    if (node.rows() == 0)
      std::fill_n(own, size_, GradientSum());
    for (int64_t part = 0; part < parts; ++part) {
      int64_t begin = std::max(before, rows * part / parts) - before;
      int64_t end = std::min(before + node.rows(), rows * (part + 1) / parts) - before;
      if (begin >= end)
        continue;
      if (begin > 0)
        scratch_[part].resize(size_);
      pieces[part].push_back(
          {number, node.begin + begin, node.begin + end, begin > 0 ? scratch_[part].data() : own});
    }
    before += node.rows();
  }
  threads_.parts(parts, [&](int64_t part, int) {
    for (const Piece &piece : pieces[part]) {
      std::fill_n(piece.to, size_, GradientSum());
      accumulate(piece);
    }
  });
  for (int64_t part = 1; part < parts; ++part) {
    if (pieces[part].empty() || pieces[part][0].to != scratch_[part].data())
      continue;
    GradientSum *to = histograms_[pieces[part][0].node]->data();
    const GradientSum *from = scratch_[part].data();
    threads_.ranges(size_, 1 << 12, [&](int64_t begin, int64_t end, int) {
      for (int64_t at = begin; at < end; ++at)
        to[at].add(from[at]);
    });
  }
  if (exchange_)
    for (int32_t node : nodes) {
      auto *sums = reinterpret_cast<double *>(histograms_[node]->data());
      if (Status status = exchange_->sum({sums, size_t(2 * size_)}); !status.ok())
        return status;
    }
  return {};
}

void HistogramFinder::accumulate(const Piece &piece) const {
  RowHistogram rows{tree_.gradients.data(), bins_.offsets().data(), bins_.features(), prefetches_};
  std::span<const uint32_t> numbers = tree_.rows.subspan(piece.begin, piece.end - piece.begin);
  bool isAll = int64_t(numbers.size()) == numbers.back() - int64_t(numbers.front()) + 1;
  if (bins_.isByte())
    addRows(rows, bins_.bytes(), numbers, isAll, piece.to);
  else
    addRows(rows, bins_.words(), numbers, isAll, piece.to);
}

void HistogramFinder::evaluate(std::span<const int32_t> built, std::span<const int32_t> derived) {
  std::vector<GrowingNode> &nodes = *tree_.nodes;
  std::vector<int32_t> parents(built.size(), -1);
  for (size_t pair = 0; pair < built.size(); ++pair)
    if (derived[pair] >= 0) { // in its parent's place
      parents[pair] = nodes[derived[pair]].parent;
      if (int64_t(histograms_.size()) <= derived[pair])
        histograms_.resize(derived[pair] + 1, nullptr);
      histograms_[derived[pair]] = histograms_[parents[pair]];
      histograms_[parents[pair]] = nullptr;
    }
  int64_t features = bins_.features(), chunks = (features + kFeatureGrain - 1) / kFeatureGrain;
  std::vector<Candidate> found(2 * built.size() * chunks);
  threads_.parts(int64_t(built.size()) * chunks, [&](int64_t part, int) {
    int64_t pair = part / chunks, begin = part % chunks * kFeatureGrain;
    int64_t end = std::min(begin + kFeatureGrain, features);
    if (derived[pair] >= 0) {
      GradientSum *other = histograms_[derived[pair]]->data();
      const GradientSum *own = histograms_[built[pair]]->data();
      for (int64_t at = bins_.offsets()[begin]; at < bins_.offsets()[end]; ++at)
        other[at] = other[at].less(own[at]);
      scanFeatures(derived[pair], begin, end, found[2 * part + 1]);
    }
    scanFeatures(built[pair], begin, end, found[2 * part]);
  });
  for (size_t part = 0; part < built.size() * chunks; ++part) {
    nodes[built[part / chunks]].best.take(std::move(found[2 * part]));
    if (derived[part / chunks] >= 0)
      nodes[derived[part / chunks]].best.take(std::move(found[2 * part + 1]));
  }
  for (size_t pair = 0; pair < built.size(); ++pair)
    for (int32_t node : {built[pair], derived[pair]})
      if (node >= 0 && !subtracts_)
        release(node);
}

void HistogramFinder::scanFeatures(int32_t number, int64_t begin, int64_t end,
                                   Candidate &best) const {
  const GrowingNode &node = (*tree_.nodes)[number];
  const GradientSum *histogram = histograms_[number]->data();
  for (int64_t feature = begin; feature < end; ++feature)
    if (node.allows(feature))
      scanHistogram(histogram + bins_.offsets()[feature], binsOf(cuts_, feature), int32_t(feature),
                    node, *tree_.rules, limits_, best);
}

void HistogramFinder::sides(const Candidate &split, std::span<const uint32_t> rows,
                            uint8_t *left) const {
  bins_.look(split.feature, leftBinsOf(split, cuts_).data(), rows, left);
}

} // namespace tensmith::trees
