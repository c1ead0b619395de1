// Gradient-boosted trees as a cost model: regression of the logarithm of speed, or ranking by
// pairs.
//
// Times of a kernel are taken relative to its fastest, so that kernels of any size can be learnt
// from together. What failed gets a speed of half the slowest. Members of the ensemble see other
// parts of the rows, and their spread is the deviation (Chen et al., Learning to optimize tensor
// programs, 2018, section 3).
#include "tune/model/CostModel.h"

#include "files/Failure.h"
#include "trees/Importance.h"
#include "trees/Prediction.h"
#include "trees/Training.h"

#include <algorithm>
#include <cmath>

namespace tensmith::tune {
namespace {

/// The pairwise rank loss log(1 + exp(s_slow - s_fast)) over pairs of one kernel whose times differ
/// by a hundredth at least. Of many rows each is paired with some that are drawn afresh each round.
class PairwiseLoss {
public:
  PairwiseLoss(std::span<const int64_t> groups, uint64_t seed)
      : groups_(groups.begin(), groups.end()), random_(seed) {}

  void derive(std::span<const float> scores, std::span<const float> labels, std::span<float> first,
              std::span<float> second) {
    std::ranges::fill(first, 0.f);
    std::ranges::fill(second, kLeast);
    size_t begin = 0;
    for (int64_t size : groups_) {
      for (size_t i = 0; i < size_t(size); ++i)
        for (size_t partner = 0; partner < std::min(kPartners, size_t(size)); ++partner) {
          bool isWhole = size_t(size) <= kPartners;
          size_t j = isWhole ? partner : random_.below(uint64_t(size));
          pair(begin + i, begin + j, scores, labels, first, second);
        }
      begin += size_t(size);
    }
  }

private:
  static constexpr size_t kPartners = 32;
  static constexpr float kLeast = 1e-6f; // of a second derivative

  static void pair(size_t a, size_t b, std::span<const float> scores, std::span<const float> labels,
                   std::span<float> first, std::span<float> second) {
    if (std::abs(labels[a] - labels[b]) < kDiffers)
      return;
    size_t fast = labels[a] > labels[b] ? a : b, slow = fast == a ? b : a;
    float wrong = 1 / (1 + std::exp(scores[fast] - scores[slow]));
    first[fast] -= wrong / kPartners;
    first[slow] += wrong / kPartners;
    second[fast] += wrong * (1 - wrong) / kPartners;
    second[slow] += wrong * (1 - wrong) / kPartners;
  }

  std::vector<int64_t> groups_;
  Random random_;
};

class TreesModel : public CostModel {
public:
  TreesModel(Loss loss, uint64_t seed, int members) : loss_(loss), seed_(seed), members_(members) {}

  void fit(std::span<const Features> rows, std::span<const double> seconds,
           std::span<const int64_t> groups) override {
    forests_.clear();
    predictors_.clear();
    if (rows.size() < kFewestRows)
      return;
    const int64_t all[] = {int64_t(rows.size())};
    if (groups.empty())
      groups = all;
    trees::Matrix matrix = matrixOf(rows);
    matrix.labels = speedLabels(seconds, groups);
    for (int member = 0; member < members_; ++member) {
      trees::Parameters parameters;
      parameters.rounds = 60;
      parameters.learningRate = 0.2;
      parameters.maxDepth = 5;
      parameters.threads = 1;
      parameters.minChildWeight = loss_ == Loss::Rank ? 0.05 : 1;
      parameters.lambda = loss_ == Loss::Rank ? 0.1 : 1;
      parameters.subsample = members_ == 1 ? 1 : 0.8;
      parameters.columnsByTree = members_ == 1 ? 1 : 0.8;
      parameters.seed = int64_t(seed_ % 1000003) + member;
      trees::TrainingInput input;
      input.matrix = &matrix;
      PairwiseLoss pairwise(groups, seed_ + uint64_t(member));
      if (loss_ == Loss::Rank)
        input.ownLoss = [&](std::span<const float> scores, std::span<const float> labels,
                            std::span<const float>, std::span<float> first,
                            std::span<float> second) -> Status {
          pairwise.derive(scores, labels, first, second);
          return {};
        };
      auto forest = trees::train(input, parameters);
      if (!forest.ok())
        throw Failure("the cost model can't be trained: " + forest.status().message());
      auto predictor = trees::Predictor::of(*forest);
      if (!predictor.ok())
        throw Failure("the cost model can't be used: " + predictor.status().message());
      forests_.push_back(std::move(*forest));
      predictors_.push_back(std::move(*predictor));
    }
  }

  bool isFitted() const override { return !predictors_.empty(); }

  std::vector<Prediction> predict(std::span<const Features> rows) const override {
    std::vector<Prediction> predictions(rows.size());
    if (rows.empty() || predictors_.empty())
      return predictions;
    trees::Matrix matrix = matrixOf(rows);
    std::vector<float> outputs(rows.size());
    std::vector<double> squares(rows.size());
    for (const trees::Predictor &predictor : predictors_) {
      Status status = predictor.outputs({matrix.dense, matrix.rows, matrix.columns, matrix.columns},
                                        std::span(outputs));
      if (!status.ok())
        throw Failure("the cost model can't predict: " + status.message());
      for (size_t i = 0; i < rows.size(); ++i) {
        predictions[i].score += outputs[i];
        squares[i] += double(outputs[i]) * outputs[i];
      }
    }
    auto count = double(predictors_.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      double mean = predictions[i].score / count;
      predictions[i] = {mean, std::sqrt(std::max(0.0, squares[i] / count - mean * mean))};
    }
    return predictions;
  }

  std::vector<double> importances() const override {
    std::vector<double> sums;
    for (const trees::Forest &forest : forests_) {
      std::vector<double> gains = trees::importances(forest, trees::Importance::TotalGain);
      sums.resize(gains.size());
      for (size_t i = 0; i < gains.size(); ++i)
        sums[i] += gains[i];
    }
    double all = 0;
    for (double each : sums)
      all += each;
    for (double &each : sums)
      each = all > 0 ? each / all : 0;
    return sums;
  }

private:
  static trees::Matrix matrixOf(std::span<const Features> rows) {
    std::vector<float> values;
    for (const Features &row : rows)
      values.insert(values.end(), row.begin(), row.end());
    return trees::makeDense(std::move(values), int64_t(rows.size()), int64_t(rows.front().size()));
  }

  Loss loss_;
  uint64_t seed_;
  int members_;
  std::vector<trees::Forest> forests_;
  std::vector<trees::Predictor> predictors_;
};

} // namespace

std::vector<float> speedLabels(std::span<const double> seconds, std::span<const int64_t> groups) {
  std::vector<float> labels;
  size_t first = 0;
  for (int64_t size : groups) {
    auto group = seconds.subspan(first, size_t(size));
    double least = INFINITY, most = 0;
    for (double each : group)
      if (std::isfinite(each))
        least = std::min(least, each), most = std::max(most, each);
    for (double each : group)
      labels.push_back(!std::isfinite(least)
                           ? 0
                           : float(std::log2(least / (std::isfinite(each) ? each : 2 * most))));
    first += size_t(size);
  }
  return labels;
}

std::unique_ptr<CostModel> treesModel(Loss loss, uint64_t seed, int members) {
  return std::make_unique<TreesModel>(loss, seed, members);
}

} // namespace tensmith::tune
