// Data for tests of trees: drawn from hashes, so that it is the same on every machine.
#pragma once

#include "trees/Sampling.h"
#include "trees/Training.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tensmith::trees::test {

inline float drawn(uint64_t what, uint64_t row, uint64_t column) {
  return float(unitOf(mixed(mixed(what, row), column)) * 2 - 1);
}

/// Values from -1 to 1, of which a share is missing; the label depends on the first four columns.
inline Matrix drawnMatrix(int64_t rows, int64_t columns, double missing = 0, uint64_t seed = 1) {
  std::vector<float> values(rows * columns);
  std::vector<float> labels(rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      bool isMissing = unitOf(mixed(mixed(seed + 7, row), column)) < missing;
      values[row * columns + column] =
          isMissing ? std::numeric_limits<float>::quiet_NaN() : drawn(seed, row, column);
    }
    auto at = [&](int64_t column) {
      float value = values[row * columns + column % columns];
      return std::isnan(value) ? 0.3f : value;
    };
    labels[row] =
        at(0) * at(1) + std::sin(3 * at(2)) + 0.5f * at(3) + 0.3f * drawn(seed + 3, row, 0);
  }
  Matrix matrix = makeDense(std::move(values), rows, columns);
  matrix.labels = std::move(labels);
  return matrix;
}

/// The same rows, sparse: missing values are left out.
inline Matrix toSparse(const Matrix &dense) {
  struct Storage {
    std::vector<int64_t> begin{0};
    std::vector<int32_t> column;
    std::vector<float> value;
  };
  auto storage = std::make_shared<Storage>();
  for (int64_t row = 0; row < dense.rows; ++row) {
    for (int64_t column = 0; column < dense.columns; ++column)
      if (float value = dense.dense[row * dense.columns + column]; !std::isnan(value)) {
        storage->column.push_back(int32_t(column));
        storage->value.push_back(value);
      }
    storage->begin.push_back(int64_t(storage->column.size()));
  }
  Matrix sparse = dense;
  sparse.dense = nullptr;
  sparse.rowBegin = storage->begin.data();
  sparse.column = storage->column.data();
  sparse.value = storage->value.data();
  sparse.owner = storage;
  return sparse;
}

/// Some of the rows: [begin, end).
inline Matrix someRows(const Matrix &matrix, int64_t begin, int64_t end) {
  Matrix part = matrix;
  part.rows = end - begin;
  part.dense = matrix.dense + begin * matrix.columns;
  part.labels.assign(matrix.labels.begin() + begin, matrix.labels.begin() + end);
  if (!matrix.weights.empty())
    part.weights.assign(matrix.weights.begin() + begin, matrix.weights.begin() + end);
  return part;
}

inline bool isSame(const Tree &a, const Tree &b) {
  auto bits = [](const std::vector<float> &one, const std::vector<float> &other) {
    return one.size() == other.size() &&
           std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
  };
  return a.feature == b.feature && bits(a.threshold, b.threshold) && a.left == b.left &&
         a.right == b.right && a.missingLeft == b.missingLeft && bits(a.value, b.value) &&
         bits(a.gain, b.gain) && bits(a.cover, b.cover) && a.categoryBegin == b.categoryBegin &&
         a.categoryEnd == b.categoryEnd && a.categories == b.categories;
}

inline bool isSame(const Forest &a, const Forest &b) {
  if (a.trees.size() != b.trees.size() || a.baseScores != b.baseScores || a.scale != b.scale)
    return false;
  for (size_t tree = 0; tree < a.trees.size(); ++tree)
    if (!isSame(a.trees[tree], b.trees[tree]))
      return false;
  return true;
}

} // namespace tensmith::trees::test
