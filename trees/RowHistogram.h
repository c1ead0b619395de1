// The innermost loop of training: each row's gradient statistics are added to the bins that the
// row is in, one of each feature.
//
// A bin's two sums are one vector of two f64, and so one load, addition and store. Rows of a node
// lie apart in memory, so bins and gradients of later rows are asked for ahead.
#pragma once

#include "trees/Gradients.h"

#include <cstdint>
#include <span>

namespace tensmith::trees {

struct RowHistogram {
  const Gradient *gradients;
  const uint32_t *offsets; // of features in the histogram
  int64_t features;
  bool prefetches;
  int64_t firstRow = 0; // whose bins are the first ones
};

/// `bins`: row after row. `isAll`: the rows follow one another.
void addRows(const RowHistogram &rows, const uint8_t *bins, std::span<const uint32_t> numbers,
             bool isAll, GradientSum *histogram);
void addRows(const RowHistogram &rows, const uint16_t *bins, std::span<const uint32_t> numbers,
             bool isAll, GradientSum *histogram);

} // namespace tensmith::trees
