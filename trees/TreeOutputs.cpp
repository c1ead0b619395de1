// One tree over blocks of rows.
#include "trees/TreeOutputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensmith::trees {

int32_t leafOf(const Tree &tree, const float *dense, const std::vector<Feature> &features) {
  int32_t node = 0;
  while (!tree.isLeaf(node)) {
    int32_t feature = tree.feature[node];
    float value = dense[feature];
    bool goesLeft = tree.missingLeft[node];
    if (!std::isnan(value)) {
      goesLeft = value < tree.threshold[node];
      if (tree.isCategorical(node)) {
        auto begin = tree.categories.begin();
        // As Prediction.cpp: what has not been seen goes the default way.
        bool isKnown = value > -1 && value < float(features[size_t(feature)].categories);
        goesLeft = isKnown ? std::binary_search(begin + tree.categoryBegin[node],
                                                begin + tree.categoryEnd[node], int32_t(value))
                           : bool(tree.missingLeft[node]);
      }
    }
    node = goesLeft ? tree.left[node] : tree.right[node];
  }
  return node;
}

void addTree(const Tree &tree, float scale, const std::vector<Feature> &features,
             const Matrix &matrix, std::span<float> outputs, int64_t channels, int64_t channel,
             Threads &threads) {
  threads.ranges(matrix.rows, 1024, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row;
    if (matrix.isSparse())
      row.assign(matrix.columns, std::numeric_limits<float>::quiet_NaN());
    for (int64_t number = begin; number < end; ++number) {
      const float *values = matrix.isSparse() ? nullptr : matrix.dense + number * matrix.columns;
      if (matrix.isSparse()) {
        for (int64_t at = matrix.rowBegin[number]; at < matrix.rowBegin[number + 1]; ++at)
          row[matrix.column[at]] = matrix.value[at];
        values = row.data();
      }
      outputs[number * channels + channel] += scale * tree.value[leafOf(tree, values, features)];
      if (matrix.isSparse())
        for (int64_t at = matrix.rowBegin[number]; at < matrix.rowBegin[number + 1]; ++at)
          row[matrix.column[at]] = std::numeric_limits<float>::quiet_NaN();
    }
  });
}

} // namespace tensmith::trees
