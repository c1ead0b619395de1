// Proposals and histograms over sorted columns, a thread a column, some columns at a time.
#include "trees/ApproxFinder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tensmith::trees {

namespace {

constexpr double kFiner = 8;     // the sketch's error is that part of a bin
constexpr int64_t kSent = 32;    // entries that processes send, for each candidate
constexpr int64_t kColumns = 64; // at a time, which bounds the memory of sketches and histograms
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

} // namespace

ApproxFinder::ApproxFinder(const Matrix &matrix, const Parameters &parameters, Threads &threads,
                           Exchange *exchange)
    : matrix_(matrix), columns_(matrix, threads), threads_(threads), exchange_(exchange),
      candidates_(parameters.maxBins), isLocal_(parameters.proposals == "local"),
      limits_{parameters.oneHotCategories, parameters.splitCategories}, slot_(matrix.rows) {}

Status ApproxFinder::begin(const GrowingTree &tree) {
  tree_ = tree;
  std::fill(slot_.begin(), slot_.end(), 0);
  return isLocal_ ? Status() : propose(1);
}

/// Fills proposed_ from the rows of each slot, of all processes.
Status ApproxFinder::propose(size_t slots) {
  proposed_.resize(size_t(columns_.columns()));
  for (int64_t begin = 0; begin < columns_.columns(); begin += kColumns) {
    int64_t count = std::min(kColumns, columns_.columns() - begin);
    std::vector<Sketched> sketched(static_cast<size_t>(count));
    threads_.parts(count, [&](int64_t at, int) { sketched[at] = sketch(begin + at, slots); });
    if (Status status = mergeAll(sketched); !status.ok())
      return status;
    threads_.parts(count,
                   [&](int64_t at, int) { proposed_[begin + at] = cut(begin + at, sketched[at]); });
  }
  return {};
}

ApproxFinder::Sketched ApproxFinder::sketch(int64_t feature, size_t slots) const {
  std::span<const SortedColumns::Entry> column = columns_.column(feature);
  Sketched result{std::vector<QuantileSummary>(slots),
                  column.empty() ? kNone : column.back().value};
  if (matrix_.categoriesOf(feature) > 0)
    return result;
  std::vector<QuantileSketch> sketches(
      slots, QuantileSketch(1 / (kFiner * double(candidates_)), int64_t(column.size())));
  for (const SortedColumns::Entry &entry : column)
    if (int32_t slot = slot_[entry.row]; slot >= 0)
      sketches[slot].add(entry.value, tree_.gradients[entry.row].second);
  for (size_t slot = 0; slot < slots; ++slot) {
    result.summaries[slot] = sketches[slot].summary();
    if (exchange_)
      result.summaries[slot] = result.summaries[slot].pruned(kSent * candidates_);
  }
  return result;
}

/// Summaries become those of all processes' rows: sizes are gathered, then entries, in order.
Status ApproxFinder::mergeAll(std::span<Sketched> features) const {
  if (!exchange_)
    return {};
  std::vector<double> sizes, entries;
  for (const Sketched &feature : features) {
    sizes.push_back(feature.most);
    for (const QuantileSummary &summary : feature.summaries) {
      sizes.push_back(double(summary.entries().size()));
      for (const QuantileSummary::Entry &entry : summary.entries())
        entries.insert(entries.end(), {entry.value, entry.least, entry.most, entry.weight});
    }
  }
  auto processes = size_t(exchange_->size());
  sizes.push_back(double(entries.size()));
  std::vector<double> allSizes(sizes.size() * processes);
  if (Status status = exchange_->gather(sizes, allSizes); !status.ok())
    return status;
  size_t longest = 0;
  for (size_t process = 1; process <= processes; ++process)
    longest = std::max(longest, size_t(allSizes[process * sizes.size() - 1]));
  entries.resize(longest);
  std::vector<double> all(longest * processes);
  if (Status status = longest > 0 ? exchange_->gather(entries, all) : Status(); !status.ok())
    return status;
  for (Sketched &feature : features) {
    feature.most = kNone;
    feature.summaries.assign(feature.summaries.size(), {});
  }
  for (size_t process = 0; process < processes; ++process) {
    const double *size = allSizes.data() + process * sizes.size();
    const double *from = all.data() + process * longest;
    for (Sketched &feature : features) {
      feature.most = std::fmax(feature.most, float(*size++)); // NaN is none
      for (QuantileSummary &summary : feature.summaries) {
        auto count = size_t(*size++);
        summary = QuantileSummary::merged(summary, QuantileSummary::ofEntries({from, 4 * count}));
        from += 4 * count;
      }
    }
  }
  return {};
}

std::vector<ApproxFinder::Proposed> ApproxFinder::cut(int64_t feature,
                                                      const Sketched &sketched) const {
  std::vector<Proposed> proposed(sketched.summaries.size());
  if (int64_t categories = matrix_.categoriesOf(feature)) {
    std::vector<float> each(categories);
    std::iota(each.begin(), each.end(), 0.f);
    std::fill(proposed.begin(), proposed.end(), Proposed{each, -1});
    return proposed;
  }
  float most = std::isnan(sketched.most) ? 0 : sketched.most;
  float last = most + (std::fabs(most) + 1e-5f);
  for (size_t slot = 0; slot < proposed.size(); ++slot) {
    const QuantileSummary &summary = sketched.summaries[slot];
    Proposed &to = proposed[slot];
    to.cuts = proposals(summary, candidates_);
    float lowest = summary.isEmpty() ? 0 : summary.entries().front().value;
    to.least = lowest - (std::fabs(lowest) + 1e-5f);
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
  if (Status status = isLocal_ ? propose(nodes.size()) : Status(); !status.ok())
    return status;
  std::vector<std::vector<Candidate>> found(threads_.count(), std::vector<Candidate>(nodes.size()));
  for (int64_t begin = 0; begin < columns_.columns(); begin += kColumns) {
    int64_t count = std::min(kColumns, columns_.columns() - begin);
    std::vector<Histograms> histograms(static_cast<size_t>(count));
    threads_.parts(count, [&](int64_t at, int) { histograms[at] = build(begin + at); });
    for (Histograms &of : histograms) {
      auto *sums = reinterpret_cast<double *>(of.sums.data());
      if (exchange_)
        if (Status status = exchange_->sum({sums, 2 * of.sums.size()}); !status.ok())
          return status;
    }
    threads_.parts(
        count, [&](int64_t at, int thread) { scan(begin + at, histograms[at], found[thread]); });
  }
  for (std::vector<Candidate> &ofThread : found)
    for (size_t slot = 0; slot < nodes.size(); ++slot)
      (*tree_.nodes)[nodes[slot]].best.take(std::move(ofThread[slot]));
  return {};
}

ApproxFinder::Histograms ApproxFinder::build(int64_t feature) const {
  Histograms result{std::vector<size_t>(level_.size() + 1, 0), {}};
  std::vector<size_t> &begin = result.begin;
  for (size_t slot = 0; slot < level_.size(); ++slot)
    begin[slot + 1] = begin[slot] + proposed(feature, slot).cuts.size();
  result.sums.resize(begin.back());
  std::vector<size_t> bin(begin.begin(), begin.end() - 1);
  bool isCategorical = matrix_.categoriesOf(feature) != 0;
  for (const SortedColumns::Entry &entry : columns_.column(feature)) {
    int32_t slot = slot_[entry.row];
    if (slot < 0)
      continue;
    const std::vector<float> &cuts = proposed(feature, slot).cuts;
    if (isCategorical)
      bin[slot] = begin[slot] + size_t(entry.value);
    else
      while (bin[slot] + 1 < begin[slot + 1] && entry.value >= cuts[bin[slot] - begin[slot]])
        ++bin[slot];
    result.sums[bin[slot]].add(tree_.gradients[entry.row]);
  }
  return result;
}

void ApproxFinder::scan(int64_t feature, const Histograms &histograms,
                        std::vector<Candidate> &best) const {
  bool isCategorical = matrix_.categoriesOf(feature) != 0;
  for (size_t slot = 0; slot < level_.size(); ++slot)
    if (level_[slot]->allows(feature))
      scanHistogram(histograms.sums.data() + histograms.begin[slot],
                    {proposed(feature, slot).cuts, proposed(feature, slot).least, isCategorical},
                    int32_t(feature), *level_[slot], *tree_.rules, limits_, best[slot]);
}

void ApproxFinder::sides(const Candidate &split, std::span<const uint32_t> rows,
                         uint8_t *left) const {
  sidesByValue(matrix_, split.missingLeft, split.feature, split.threshold, split.categories, rows,
               left);
}

} // namespace tensmith::trees
