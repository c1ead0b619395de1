// What trees are trained on and predict: rows of f32 features, dense or sparse, and what is known
// of each row.
//
// Values are borrowed, so that an array of NumPy's or a mapped file is not copied; `owner` keeps
// them alive. A missing value is NaN in dense rows, and absent (or NaN) in sparse ones. An infinite
// value is a number like others. Nothing here is changed by training.
#pragma once

#include "base/Status.h"
#include "trees/Forest.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace tensmith::trees {

/// Of a feature, which a bin of 16 bits tells apart beside one for missing values.
inline constexpr int64_t kMostBins = 65535;

struct Matrix {
  int64_t rows = 0, columns = 0;

  /// Row-major, rows × columns; null where rows are sparse.
  const float *dense = nullptr;
  /// Compressed sparse rows: entries rowBegin[r] .. rowBegin[r + 1] are row r's, with ascending
  /// columns. rowBegin has rows + 1 elements.
  const int64_t *rowBegin = nullptr;
  const int32_t *column = nullptr;
  const float *value = nullptr;
  std::shared_ptr<const void> owner;

  /// As many as rows, or rows × targets; empty for prediction. Of Cox, a time; negative where the
  /// row was censored at -label. Of classes, 0, 1, ...
  std::vector<float> labels;
  std::vector<float> weights;     // of rows, of ranking also of groups; empty: 1
  std::vector<int64_t> groups;    // of ranking: how many rows each query has, in order
  std::vector<float> baseMargins; // rows × channels: where boosting starts, instead of base scores
  std::vector<Feature> features;  // names and kinds; empty: numbers without names

  bool isSparse() const { return rowBegin != nullptr; }
  int64_t entries() const { return isSparse() ? rowBegin[rows] : rows * columns; }
  int64_t categoriesOf(int64_t feature) const {
    return features.empty() ? 0 : features[feature].categories;
  }
};

/// Whether sizes agree, columns ascend and are in range, and labels and weights are finite and
/// categories whole numbers in range: a message that names the row and the column otherwise.
Status check(const Matrix &matrix, const char *what);

/// Of sparse rows: column c's present values come to lie in [begin[c], begin[c + 1]).
std::vector<int64_t> columnBegins(const Matrix &matrix);
/// visit(place, row, value) for each present value of sparse rows, with its place among the
/// columns; in each column rows ascend.
template <typename Visit>
void toColumns(const Matrix &matrix, const std::vector<int64_t> &begin, Visit &&visit) {
  std::vector<int64_t> to(begin.begin(), begin.end() - 1);
  for (int64_t row = 0; row < matrix.rows; ++row)
    for (int64_t entry = matrix.rowBegin[row]; entry < matrix.rowBegin[row + 1]; ++entry)
      if (float value = matrix.value[entry]; value == value) // no NaN
        visit(to[matrix.column[entry]]++, row, value);
}

/// For a matrix that owns its values.
Matrix makeDense(std::vector<float> values, int64_t rows, int64_t columns);

} // namespace tensmith::trees
