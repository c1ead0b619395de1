// A forest of regression trees, as training makes it, files hold it and prediction reads it.
//
// The output of row x, channel c, is baseScores[c] + the sum, over the trees t with channel[t] ==
// c, of scale[t] times the value of the leaf that x reaches in t. The objective's transform (the
// logistic function, softmax, exp) makes predictions of outputs.
//
// A split sends a row left where its value is less than the threshold; comparisons are of f32, as
// in XGBoost. A missing value (NaN, or absent in a sparse row) goes the split's default way. A
// split of categories sends a row left where its category is in the split's set; a category that
// training has not seen goes the default way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensmith::trees {

/// Nodes in arrays, one element a node; node 0 is the root, and children have greater numbers than
/// their parents.
struct Tree {
  static constexpr int32_t kNone = -1;

  std::vector<int32_t> feature;     // that a split tests; kNone at a leaf
  std::vector<float> threshold;     // of numbers
  std::vector<int32_t> left, right; // kNone at a leaf
  std::vector<uint8_t> missingLeft; // 1: missing values go left
  std::vector<float> value; // a leaf's output, shrinkage included; of a split if it were one
  std::vector<float> gain,
      cover; // loss that the split saves; sum of Hessians (0 where a file doesn't say)
  /// Of a split of categories: its set is categories[categoryBegin .. categoryEnd), ascending. Both
  /// 0 elsewhere.
  std::vector<int32_t> categoryBegin, categoryEnd;
  std::vector<int32_t> categories;

  int32_t size() const { return int32_t(feature.size()); }
  bool isLeaf(int32_t node) const { return left[node] == kNone; }
  bool isCategorical(int32_t node) const { return categoryEnd[node] > categoryBegin[node]; }
};

/// What the categories of a feature are called, in the order of their numbers.
struct Levels {
  enum class Kind : uint8_t { Text, Whole, Real }; // numbers are written in decimal
  Kind kind = Kind::Text;
  std::vector<std::string> names; // empty: not known

  bool operator==(const Levels &) const = default;
};

struct Feature {
  std::string name;       // empty: "f" and its number
  int64_t categories = 0; // 0: a number
  /// What is within 1e-35 of zero is missing, too: of LightGBM's models with zero_as_missing.
  bool zeroIsMissing = false;
  Levels levels = {}; // of categories; at most as many as there are
};

struct Forest {
  std::string objective = "squared"; // a name of Objective.h's table
  std::vector<Feature> features;
  std::vector<double> baseScores; // by channel, before the transform; as many as there are channels
  std::vector<Tree> trees;
  std::vector<int32_t> channel;        // by tree
  std::vector<float> scale;            // by tree: 1, but where DART dropped it
  std::vector<int64_t> classes;        // of a classifier: the labels, ascending; of others empty
  std::vector<std::string> classNames; // of a target of text, by class; empty: labels are numbers
  int64_t bestRound = -1;              // by early stopping; -1: all rounds count

  int64_t channels() const { return int64_t(baseScores.size()); }
};

} // namespace tensmith::trees
