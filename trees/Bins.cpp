// Values to bins, by threads over blocks of rows.
#include "trees/Bins.h"

#include "trees/Split.h"

#include <algorithm>
#include <cmath>

namespace tensmith::trees {

namespace {

constexpr int64_t kGrain = 2048;

} // namespace

DenseBins::DenseBins(const Matrix &matrix, const Cuts &cuts, Threads &threads)
    : rows_(matrix.rows), features_(matrix.columns) {
  std::vector<uint8_t> hasMissing(features_, 0);
  threads.ranges(rows_, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t feature = 0; feature < features_; ++feature)
        if (std::isnan(matrix.dense[row * features_ + feature]))
          __atomic_store_n(&hasMissing[feature], 1, __ATOMIC_RELAXED);
  });
  for (int64_t feature = 0; feature < features_; ++feature)
    isByte_ &= cuts.bins(feature) + hasMissing[feature] <= 256;
  if (isByte_)
    fill(matrix, cuts, threads, byRow8_, byColumn8_);
  else
    fill(matrix, cuts, threads, byRow16_, byColumn16_);
}

template <typename Bin>
void DenseBins::fill(const Matrix &matrix, const Cuts &cuts, Threads &threads,
                     std::vector<Bin> &byRow, std::vector<Bin> &byColumn) {
  byRow.resize(rows_ * features_ + 64);
  byColumn.resize(rows_ * features_);
  threads.ranges(rows_, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t feature = 0; feature < features_; ++feature)
      for (int64_t row = begin; row < end; ++row) {
        float value = matrix.dense[row * features_ + feature];
        auto bin = Bin(std::isnan(value) ? cuts.bins(feature) : cuts.binOf(feature, value));
        byRow[row * features_ + feature] = bin;
        byColumn[feature * rows_ + row] = bin;
      }
  });
}

void DenseBins::look(int64_t feature, const uint8_t *leftBins, std::span<const uint32_t> rows,
                     uint8_t *left) const {
  auto look = [&](const auto *column) {
    for (size_t at = 0; at < rows.size(); ++at)
      left[at] = leftBins[column[rows[at]]];
  };
  if (isByte_)
    look(byColumn8_.data() + feature * rows_);
  else
    look(byColumn16_.data() + feature * rows_);
}

SparseBins::SparseBins(const Matrix &matrix, const Cuts &cuts, Threads &threads)
    : rows_(matrix.rows), begin_(columnBegins(matrix)), entries_(size_t(begin_.back())) {
  std::vector<float> values(entries_.size());
  toColumns(matrix, begin_, [&](int64_t at, int64_t row, float value) {
    entries_[at].row = uint32_t(row);
    values[at] = value;
  });
  threads.parts(matrix.columns, [&](int64_t feature, int) {
    for (int64_t at = begin_[feature]; at < begin_[feature + 1]; ++at)
      entries_[at].bin = cuts.binOf(feature, values[at]);
  });
}

void SparseBins::look(int64_t feature, const uint8_t *leftBins, bool missingLeft,
                      std::span<const uint32_t> rows, uint8_t *left) const {
  std::fill_n(left, rows.size(), uint8_t(missingLeft));
  if (rows.empty())
    return;
  std::span<const Entry> entries = column(feature);
  auto before = [](const Entry &entry, uint32_t row) { return entry.row < row; };
  auto entry = std::lower_bound(entries.begin(), entries.end(), rows.front(), before);
  auto row = rows.begin();
  while (entry != entries.end() && row != rows.end())
    if (entry->row < *row)
      ++entry;
    else if (*row < entry->row)
      ++row;
    else {
      left[row++ - rows.begin()] = leftBins[entry->bin];
      ++entry;
    }
}

std::vector<uint8_t> leftBinsOf(const Candidate &split, const Cuts &cuts) {
  int64_t bins = cuts.bins(split.feature);
  std::vector<uint8_t> left(bins + 1, 0);
  if (split.categories.empty())
    std::fill_n(left.begin(), split.bin + 1, uint8_t(1));
  for (int32_t category : split.categories)
    left[category] = 1;
  left[bins] = split.missingLeft;
  return left;
}

} // namespace tensmith::trees
