// Which histograms of a level are made, which are differences, and the scans of both.
#include "trees/HistogramFinder.h"

#include "trees/SharedCandidates.h"

#include <algorithm>

namespace tensmith::trees {

namespace {

constexpr int64_t kFeatureGrain = 8;

} // namespace

HistogramFinder::HistogramFinder(const Cuts &cuts, const Parameters &parameters, Threads &threads,
                                 Exchange *exchange)
    : cuts_(cuts), threads_(threads), exchange_(exchange), subtracts_(parameters.subtraction),
      prefetches_(parameters.prefetch), buildsByHessians_(exchange != nullptr),
      limits_{parameters.oneHotCategories, parameters.splitCategories},
      endFeature_(cuts.features()) {
  layOut();
}

/// Features one after the other; of several processes in as many parts of equal size, one for each.
void HistogramFinder::layOut() {
  int64_t features = cuts_.features(), parts = exchange_ ? exchange_->size() : 1;
  std::vector<int64_t> before{0}; // elements of features
  for (int64_t feature = 0; feature < features; ++feature)
    before.push_back(before.back() + cuts_.bins(feature) + 1);
  std::vector<int64_t> first; // by part
  for (int64_t part = 0; part <= parts; ++part)
    first.push_back(std::ranges::lower_bound(before, before.back() * part / parts) -
                    before.begin());
  int64_t longest = 0;
  for (int64_t part = 0; part < parts; ++part)
    longest = std::max(longest, before[first[part + 1]] - before[first[part]]);
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t feature = first[part]; feature < first[part + 1]; ++feature)
      offsets_.push_back(uint32_t(part * longest + before[feature] - before[first[part]]));
  size_ = parts * longest;
  offsets_.push_back(uint32_t(size_));
  if (exchange_)
    firstFeature_ = first[exchange_->rank()], endFeature_ = first[exchange_->rank() + 1];
}

GradientSum *HistogramFinder::allot(int32_t node) {
  if (node < int32_t(histograms_.size()) && histograms_[node])
    return histograms_[node]->data();
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
    // Processes must agree, and have other rows each; blocks are built before rows are counted.
    bool isFirst =
        buildsByHessians_ ? node.sum.second <= other.sum.second : node.rows() <= other.rows();
    built.push_back(isFirst ? node.number : other.number);
    derived.push_back(isFirst ? other.number : node.number);
    at += 2;
  }
  for (int32_t node : built)
    allot(node);
  if (Status status = build(built); !status.ok())
    return status;
  return evaluate(built, derived);
}

Status HistogramFinder::sumTogether(std::span<const int32_t> nodes) {
  if (!exchange_)
    return {};
  std::vector<std::span<double>> sums;
  for (int32_t node : nodes)
    sums.emplace_back(reinterpret_cast<double *>(histograms_[node]->data()), size_t(2 * size_));
  return exchange_->sumParts(sums);
}

Status HistogramFinder::evaluate(std::span<const int32_t> built, std::span<const int32_t> derived) {
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
  int64_t chunks = (endFeature_ - firstFeature_ + kFeatureGrain - 1) / kFeatureGrain;
  std::vector<Candidate> found(2 * built.size() * chunks);
  threads_.parts(int64_t(built.size()) * chunks, [&](int64_t part, int) {
    int64_t pair = part / chunks, begin = firstFeature_ + part % chunks * kFeatureGrain;
    int64_t end = std::min(begin + kFeatureGrain, endFeature_);
    if (derived[pair] >= 0) {
      GradientSum *other = histograms_[derived[pair]]->data();
      const GradientSum *own = histograms_[built[pair]]->data();
      for (int64_t at = offsets_[begin]; at < offsets_[end]; ++at)
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
  std::vector<GrowingNode *> evaluated;
  for (size_t pair = 0; pair < built.size(); ++pair)
    for (int32_t node : {built[pair], derived[pair]})
      if (node >= 0) {
        evaluated.push_back(&nodes[node]);
        if (!subtracts_)
          release(node);
      }
  return exchange_ ? shareBest(evaluated, cuts_, *exchange_) : Status();
}

void HistogramFinder::scanFeatures(int32_t number, int64_t begin, int64_t end,
                                   Candidate &best) const {
  const GrowingNode &node = (*tree_.nodes)[number];
  const GradientSum *histogram = histograms_[number]->data();
  for (int64_t feature = begin; feature < end; ++feature)
    if (node.allows(feature))
      scanHistogram(histogram + offsets_[feature], binsOf(cuts_, feature), int32_t(feature), node,
                    *tree_.rules, limits_, best);
}

} // namespace tensmith::trees
