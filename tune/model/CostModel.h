// What a search believes of points that it has not measured.
//
// A model is fitted to rows of features and how fast each was, and predicts a score, of which more
// is faster; scores of one kernel can be compared, and mean nothing beyond that. Of an ensemble the
// deviation says how sure it is. Which features there are is its user's matter: rows of one model
// have one length.
#pragma once

#include "tune/SearchSpace.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith::tune {

using Features = std::vector<double>;

struct Prediction {
  double score = 0, deviation = 0;
};

class CostModel {
public:
  virtual ~CostModel() = default;
  /// Afresh. Seconds may be infinite: what failed is slower than all others. `groups`: how many
  /// rows each kernel has, in order; only times of one kernel are compared. Empty: all are one's.
  virtual void fit(std::span<const Features> rows, std::span<const double> seconds,
                   std::span<const int64_t> groups = {}) = 0;
  /// Whether it has seen enough to predict.
  virtual bool isFitted() const = 0;
  virtual std::vector<Prediction> predict(std::span<const Features> rows) const = 0;
  /// By feature, what share of the model's decisions it has; empty where that is not known.
  virtual std::vector<double> importances() const { return {}; }
};

enum class Loss { Regression, Rank };

constexpr size_t kFewestRows = 8; // that a model learns from
/// Labels whose difference is less are alike: log2(1.01).
constexpr float kDiffers = 0.014f;
/// By row, the logarithm (base 2) of its speed against its group's fastest; half the slowest's for
/// what failed.
std::vector<float> speedLabels(std::span<const double> seconds, std::span<const int64_t> groups);

/// An ensemble of gradient-boosted trees (trees/), each on a part of the rows.
std::unique_ptr<CostModel> treesModel(Loss loss, uint64_t seed, int members = 3);
/// A loop and what it is in, of a loop program.
struct Loop {
  int64_t parent; // before it; -1: none
  std::vector<double> numbers;
};
/// Rows for treeGruModel: of programs with more loops than it sees, the first.
Features treeFeatures(std::span<const Loop> loops);
/// A network that reads a loop program's tree (treeFeatures) from the innermost loops outwards, a
/// gated recurrent unit at each. Compiled, differentiated and trained by Tensmith.
std::unique_ptr<CostModel> treeGruModel(Loss loss, uint64_t seed);
/// Predicts the same of all: what a search is worth without its model.
std::unique_ptr<CostModel> constantModel();

/// Of the pairs whose times differ by more than a hundredth, the share that the model puts in
/// order.
double pairwiseAccuracy(const CostModel &model, std::span<const Features> rows,
                        std::span<const double> seconds);

/// How the score and its deviation make one number to go by.
enum class Acquisition { Mean, UpperBound, ExpectedImprovement };
/// `best`: the largest score that was measured, as the model predicts it.
double valueOf(const Prediction &prediction, Acquisition acquisition, double best);

/// A model with the features that it is given: what a search goes by.
struct Guide {
  std::shared_ptr<CostModel> model;
  /// Of a point; null: the space's knobs.
  std::function<Features(const Configuration &)> features = nullptr;
  Acquisition acquisition = Acquisition::Mean;

  Features of(const SearchSpace &space, const Configuration &configuration) const {
    return features ? features(configuration) : space.knobs(configuration);
  }
};

} // namespace tensmith::tune
