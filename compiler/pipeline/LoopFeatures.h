// What a kernel's code is like, in numbers: what learned cost models see of a candidate.
//
// They are taken from the loop program that a template emits, before LLVM, and so mean the same for
// every kernel and every space: what was learnt of one serves another. Each innermost place of the
// program counts as often as the loops around it run; the numbers of all places are added up, and
// the hottest few places are told apart. (Chen et al., Learning to optimize tensor programs, 2018;
// Zheng et al., Ansor, 2020, have the kinds of features.)
#pragma once

#include "compiler/kernel/EmittedKernel.h"

#include <span>
#include <string>
#include <vector>

namespace tensmith::pipeline {

/// A feature's name and what it means, in words.
struct FeatureName {
  std::string name, meaning;
};

/// Of all features, in their order; each kernel has as many.
std::span<const FeatureName> loopFeatureNames();

/// Amounts are log2(1 + x).
std::vector<double> loopFeatures(const kernel::EmittedKernel &kernel);

/// A loop of the program, or what stands outside of any.
struct LoopNode {
  int64_t parent;              // its number; -1: none
  std::vector<double> numbers; // of what stands in it and in no loop within: a hot place's features
};
/// The tree of all loops: a parent comes before what is in it, and the first is the root.
std::vector<LoopNode> loopTree(const kernel::EmittedKernel &kernel);

} // namespace tensmith::pipeline
