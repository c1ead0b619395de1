// The data as columns sorted by value once, for exact growth and for proposals (the XGBoost paper's
// column blocks, section 4.1): of each feature the entries that are present, so that a scan takes
// time linear in those.
#pragma once

#include "trees/Matrix.h"
#include "trees/Threads.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tensmith::trees {

class SortedColumns {
public:
  struct Entry {
    uint32_t row;
    float value;
  };

  SortedColumns(const Matrix &matrix, Threads &threads);

  int64_t columns() const { return int64_t(begin_.size()) - 1; }
  int64_t rows() const { return rows_; }
  /// Ascending values; of equal ones, ascending rows.
  std::span<const Entry> column(int64_t feature) const {
    return std::span(entries_).subspan(begin_[feature], begin_[feature + 1] - begin_[feature]);
  }
  bool isComplete(int64_t feature) const { return begin_[feature + 1] - begin_[feature] == rows_; }

private:
  void fillFromDense(const Matrix &matrix, Threads &threads);
  void fillFromSparse(const Matrix &matrix);

  int64_t rows_;
  std::vector<int64_t> begin_;
  std::vector<Entry> entries_;
};

/// The value of a row and a feature; NaN where it is missing.
float valueAt(const Matrix &matrix, int64_t row, int64_t feature);
/// Sides of a split by raw values (SplitFinder::sides).
void sidesByValue(const Matrix &matrix, bool missingLeft, int32_t feature, float threshold,
                  std::span<const int32_t> categories, std::span<const uint32_t> rows,
                  uint8_t *left);

} // namespace tensmith::trees
