// How much each feature adds to a row's output: Shapley values of trees, exactly.
//
// The value of a set of features is the mean output of a tree where the others are unknown: a split
// of an unknown feature sends a row both ways, weighted by the covers of its children. Lundberg,
// Erion and Lee, "Consistent Individualized Feature Attribution for Tree Ensembles" (2018),
// algorithm 2: all subsets of the features on a path are kept at once, by their sizes, so that a
// tree of L leaves and depth D takes O(L D^2) instead of O(L 2^D).
//
// The invariant: a row's contributions and the bias sum up to its output.
#pragma once

#include "trees/Forest.h"
#include "trees/Prediction.h"

#include "base/Status.h"

#include <span>

namespace tensmith::trees {

/// [rows, channels, features + 1]; the last is the bias, the mean output by covers. Of the forest's
/// first `trees` trees; below 0: those that count. InvalidArgument where rows or `out` have the
/// wrong size; Unsupported where a split's children have no cover (models from ONNX).
Status contributions(const Forest &forest, const DenseRows &rows, std::span<float> out,
                     int64_t trees = -1, int threads = 1);

} // namespace tensmith::trees
