// Sorting of columns, each by one thread.
#include "trees/SortedColumns.h"

#include <algorithm>
#include <cmath>

namespace tensmith::trees {

SortedColumns::SortedColumns(const Matrix &matrix, Threads &threads)
    : rows_(matrix.rows), begin_(matrix.columns + 1, 0) {
  if (matrix.isSparse())
    fillFromSparse(matrix);
  else
    fillFromDense(matrix, threads);
  threads.parts(columns(), [&](int64_t feature, int) {
    std::sort(entries_.begin() + begin_[feature], entries_.begin() + begin_[feature + 1],
              [](const Entry &a, const Entry &b) {
                return a.value != b.value ? a.value < b.value : a.row < b.row;
              });
  });
}

void SortedColumns::fillFromDense(const Matrix &matrix, Threads &threads) {
  threads.parts(matrix.columns, [&](int64_t feature, int) {
    for (int64_t row = 0; row < rows_; ++row)
      begin_[feature + 1] += !std::isnan(matrix.dense[row * matrix.columns + feature]);
  });
  for (int64_t feature = 0; feature < matrix.columns; ++feature)
    begin_[feature + 1] += begin_[feature];
  entries_.resize(begin_.back());
  threads.parts(matrix.columns, [&](int64_t feature, int) {
    Entry *to = entries_.data() + begin_[feature];
    for (int64_t row = 0; row < rows_; ++row)
      if (float value = matrix.dense[row * matrix.columns + feature]; !std::isnan(value))
        *to++ = {uint32_t(row), value};
  });
}

void SortedColumns::fillFromSparse(const Matrix &matrix) {
  begin_ = columnBegins(matrix);
  entries_.resize(begin_.back());
  toColumns(matrix, begin_,
            [&](int64_t at, int64_t row, float value) { entries_[at] = {uint32_t(row), value}; });
}

float valueAt(const Matrix &matrix, int64_t row, int64_t feature) {
  if (!matrix.isSparse())
    return matrix.dense[row * matrix.columns + feature];
  const int32_t *begin = matrix.column + matrix.rowBegin[row],
                *end = matrix.column + matrix.rowBegin[row + 1];
  const int32_t *found = std::lower_bound(begin, end, int32_t(feature));
  return found != end && *found == feature ? matrix.value[found - matrix.column]
                                           : std::numeric_limits<float>::quiet_NaN();
}

void sidesByValue(const Matrix &matrix, bool missingLeft, int32_t feature, float threshold,
                  std::span<const int32_t> categories, std::span<const uint32_t> rows,
                  uint8_t *left) {
  for (size_t at = 0; at < rows.size(); ++at) {
    float value = valueAt(matrix, rows[at], feature);
    if (std::isnan(value))
      left[at] = missingLeft;
    else if (categories.empty())
      left[at] = value < threshold;
    else
      left[at] = std::binary_search(categories.begin(), categories.end(), int32_t(value));
  }
}

} // namespace tensmith::trees
