// Checks of a matrix, so that nothing behind them has to doubt a size, an index or a label.
#include "trees/Matrix.h"

#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {

namespace {

Status checkSparse(const Matrix &matrix, const char *what) {
  if (matrix.rowBegin[0] != 0)
    return invalidArgument(
        fmt::format("{}: the first row of sparse rows must begin at entry 0, not {}", what,
                    matrix.rowBegin[0]));
  // All of them before any entry is read: what ascends stays within the entries.
  for (int64_t row = 0; row < matrix.rows; ++row)
    if (matrix.rowBegin[row + 1] < matrix.rowBegin[row])
      return invalidArgument(fmt::format("{}: row {} ends before it begins", what, row));
  for (int64_t row = 0; row < matrix.rows; ++row)
    for (int64_t entry = matrix.rowBegin[row]; entry < matrix.rowBegin[row + 1]; ++entry) {
      int32_t column = matrix.column[entry];
      if (column < 0 || column >= matrix.columns)
        return invalidArgument(
            fmt::format("{}: row {} has an entry of column {}, but there are {} columns", what, row,
                        column, matrix.columns));
      if (entry > matrix.rowBegin[row] && column <= matrix.column[entry - 1])
        return invalidArgument(fmt::format(
            "{}: the columns of row {} must ascend, each once; sort its entries", what, row));
    }
  return {};
}

Status checkCategory(const Matrix &matrix, const char *what, int64_t row, int64_t feature,
                     float value) {
  int64_t count = matrix.features[feature].categories;
  if (std::isnan(value) || (value >= 0 && value < float(count) && value == std::floor(value)))
    return {};
  return invalidArgument(fmt::format(
      "{}: row {} has {} in column {}, whose values are categories: whole numbers from 0 to {}",
      what, row, value, feature, count - 1));
}

Status checkCategories(const Matrix &matrix, const char *what) {
  if (matrix.features.empty())
    return {};
  if (int64_t(matrix.features.size()) != matrix.columns)
    return invalidArgument(fmt::format("{}: {} features are described, but there are {} columns",
                                       what, matrix.features.size(), matrix.columns));
  for (int64_t feature = 0; feature < matrix.columns; ++feature)
    if (matrix.categoriesOf(feature) < 0 || matrix.categoriesOf(feature) > kMostBins)
      return invalidArgument(fmt::format("{}: column {} has {} categories; at most {} are taken",
                                         what, feature, matrix.categoriesOf(feature), kMostBins));
  for (const Feature &feature : matrix.features)
    if (int64_t(feature.levels.names.size()) > feature.categories)
      return invalidArgument(fmt::format("{}: feature '{}' lists {} categories, and has {}", what,
                                         feature.name, feature.levels.names.size(),
                                         feature.categories));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    int64_t begin = matrix.isSparse() ? matrix.rowBegin[row] : row * matrix.columns;
    int64_t end = matrix.isSparse() ? matrix.rowBegin[row + 1] : begin + matrix.columns;
    for (int64_t entry = begin; entry < end; ++entry) {
      int64_t feature = matrix.isSparse() ? matrix.column[entry] : entry - begin;
      if (matrix.categoriesOf(feature) == 0)
        continue;
      float value = matrix.isSparse() ? matrix.value[entry] : matrix.dense[entry];
      if (Status status = checkCategory(matrix, what, row, feature, value); !status.ok())
        return status;
    }
  }
  return {};
}

Status checkNumbers(const std::vector<float> &numbers, const char *what, const char *name,
                    bool mayBeNegative) {
  for (size_t at = 0; at < numbers.size(); ++at)
    if (!std::isfinite(numbers[at]) || (!mayBeNegative && numbers[at] < 0))
      return invalidArgument(
          fmt::format("{}: {} {} is {}; {} is expected", what, name, at, numbers[at],
                      mayBeNegative ? "a finite number" : "a finite number from 0 on"));
  return {};
}

} // namespace

Status check(const Matrix &matrix, const char *what) {
  if (matrix.rows < 0 || matrix.columns < 1 || matrix.columns > int64_t(1) << 30)
    return invalidArgument(fmt::format("{}: {} rows and {} columns; at least one column is needed",
                                       what, matrix.rows, matrix.columns));
  if (matrix.rows > int64_t(UINT32_MAX) - 1)
    return unsupported(fmt::format("{}: {} rows; at most {} are taken by one process", what,
                                   matrix.rows, UINT32_MAX - 1));
  if (matrix.isSparse())
    if (Status status = checkSparse(matrix, what); !status.ok())
      return status;
  if (Status status = checkCategories(matrix, what); !status.ok())
    return status;
  if (!matrix.labels.empty() && int64_t(matrix.labels.size()) != matrix.rows)
    return invalidArgument(fmt::format("{}: {} labels of {} rows; give one for each row", what,
                                       matrix.labels.size(), matrix.rows));
  if (Status status = checkNumbers(matrix.labels, what, "label", true); !status.ok())
    return status;
  int64_t inGroups = 0;
  for (int64_t group : matrix.groups) {
    if (group < 0 || group > matrix.rows)
      return invalidArgument(
          fmt::format("{}: a group of {} rows; sizes of groups add up to the rows", what, group));
    inGroups += group;
  }
  if (!matrix.groups.empty() && inGroups != matrix.rows)
    return invalidArgument(fmt::format("{}: the groups have {} rows together, and there are {}",
                                       what, inGroups, matrix.rows));
  size_t weights = matrix.weights.size();
  if (weights != 0 && int64_t(weights) != matrix.rows && weights != matrix.groups.size())
    return invalidArgument(fmt::format("{}: {} weights of {} rows; give one for each row{}", what,
                                       weights, matrix.rows,
                                       matrix.groups.empty() ? "" : " or group"));
  if (Status status = checkNumbers(matrix.weights, what, "weight", false); !status.ok())
    return status;
  return checkNumbers(matrix.baseMargins, what, "base margin", true);
}

Matrix makeDense(std::vector<float> values, int64_t rows, int64_t columns) {
  auto kept = std::make_shared<std::vector<float>>(std::move(values));
  Matrix matrix;
  matrix.rows = rows, matrix.columns = columns;
  matrix.dense = kept->data();
  matrix.owner = kept;
  return matrix;
}

std::vector<int64_t> columnBegins(const Matrix &matrix) {
  std::vector<int64_t> begin(size_t(matrix.columns) + 1, 0);
  for (int64_t entry = 0; entry < matrix.entries(); ++entry)
    begin[matrix.column[entry] + 1] += !std::isnan(matrix.value[entry]);
  for (int64_t column = 0; column < matrix.columns; ++column)
    begin[column + 1] += begin[column];
  return begin;
}

} // namespace tensmith::trees
