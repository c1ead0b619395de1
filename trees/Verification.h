// Whether a forest may be trusted: what prediction, training and writers rely on without looking.
//
// A forest from a file or from another program can hold any number anywhere. All that reads one
// verifies it once, and then follows indices without a test.
#pragma once

#include "trees/Forest.h"

#include "base/Status.h"

namespace tensmith::trees {

inline constexpr int64_t kMostNodes = int64_t(1) << 30; // of a forest
inline constexpr int64_t kMostFeatures = int64_t(1) << 28;
inline constexpr int64_t kMostChannels = int64_t(1) << 20;
inline constexpr int64_t kMostCategories = int64_t(1) << 24; // f32 counts no further

/// Written in a second or two; 2^26 of them, as text, take a gigabyte.
inline constexpr int64_t kMostComplements = int64_t(1) << 23;

/// InvalidModel, which names tree and node, where arrays differ in length, a feature, channel or
/// child is not there, a child doesn't come after its parent or has two, a number is NaN where none
/// may be, or a set of categories isn't ascending or shares its memory with another.
Status verifyTree(const Tree &tree, const Forest &forest);
Status verifyForest(const Forest &forest);
/// ResourceExhausted where writing what the sets of splits leave out (of known categories, where
/// unseen ones go left) takes more than kMostComplements numbers.
Status checkComplements(const Forest &forest);

/// How many of its first trees count: all, or those of the rounds up to the best one.
int64_t countedTrees(const Forest &forest);
/// Of the first `rounds` rounds; 0: countedTrees. A round has a tree for each channel.
int64_t treesOfRounds(const Forest &forest, int64_t rounds);

} // namespace tensmith::trees
