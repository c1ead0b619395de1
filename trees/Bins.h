// The data as bins: what histograms are made of.
//
// Dense rows are kept twice: row by row, since a histogram takes a row's bins of all features at
// once, and column by column, since a partition takes one feature's. A bin is a byte where no
// feature has more than 256, the one for missing values included; else two bytes. Sparse rows are
// kept as columns of (row, bin), ascending by row.
#pragma once

#include "trees/Cuts.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tensmith::trees {

class DenseBins {
public:
  DenseBins(const Matrix &matrix, const Cuts &cuts, Threads &threads);

  int64_t rows() const { return rows_; }
  int64_t features() const { return features_; }
  bool isByte() const { return isByte_; }
  const uint8_t *bytes() const { return byRow8_.data(); }
  const uint16_t *words() const { return byRow16_.data(); }
  /// left[i] = leftBins[bin of rows[i]]; leftBins has one more element than the feature has bins.
  void look(int64_t feature, const uint8_t *leftBins, std::span<const uint32_t> rows,
            uint8_t *left) const;

private:
  template <typename Bin>
  void fill(const Matrix &matrix, const Cuts &cuts, Threads &threads, std::vector<Bin> &byRow,
            std::vector<Bin> &byColumn);

  int64_t rows_, features_;
  bool isByte_ = true;
  std::vector<uint8_t> byRow8_, byColumn8_;
  std::vector<uint16_t> byRow16_, byColumn16_;
};

class SparseBins {
public:
  struct Entry {
    uint32_t row;
    int32_t bin;
  };
  SparseBins(const Matrix &matrix, const Cuts &cuts, Threads &threads);

  int64_t rows() const { return rows_; }
  int64_t features() const { return int64_t(begin_.size()) - 1; }
  std::span<const Entry> column(int64_t feature) const {
    return std::span(entries_).subspan(begin_[feature], begin_[feature + 1] - begin_[feature]);
  }
  void look(int64_t feature, const uint8_t *leftBins, bool missingLeft,
            std::span<const uint32_t> rows, uint8_t *left) const;

private:
  int64_t rows_;
  std::vector<int64_t> begin_;
  std::vector<Entry> entries_;
};

/// By bin, whether it goes left; the last element is for missing values.
std::vector<uint8_t> leftBinsOf(const struct Candidate &split, const Cuts &cuts);

} // namespace tensmith::trees
