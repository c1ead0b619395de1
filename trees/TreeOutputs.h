// Outputs of single trees during training: of validation rows, of trees that are dropped, and of a
// forest that is continued. Prediction proper is elsewhere; this takes one tree at a time.
#pragma once

#include "trees/Forest.h"
#include "trees/Matrix.h"
#include "trees/Threads.h"

#include <span>

namespace tensmith::trees {

/// The leaf that a row reaches; `dense` is its values by feature, NaN where they are missing.
/// `features` are the forest's, which know the categories that training has seen.
int32_t leafOf(const Tree &tree, const float *dense, const std::vector<Feature> &features);

/// outputs[row * channels + channel] += scale * the tree's value of the row.
void addTree(const Tree &tree, float scale, const std::vector<Feature> &features,
             const Matrix &matrix, std::span<float> outputs, int64_t channels, int64_t channel,
             Threads &threads);

} // namespace tensmith::trees
