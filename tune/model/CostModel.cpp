// Measures of models, acquisition, and the model that knows nothing; see CostModel.h.
#include "tune/model/CostModel.h"

#include <cmath>
#include <numbers>

namespace tensmith::tune {
namespace {

class ConstantModel : public CostModel {
public:
  void fit(std::span<const Features> rows, std::span<const double>,
           std::span<const int64_t>) override {
    isFitted_ = !rows.empty();
  }
  bool isFitted() const override { return isFitted_; }
  std::vector<Prediction> predict(std::span<const Features> rows) const override {
    return std::vector<Prediction>(rows.size());
  }

private:
  bool isFitted_ = false;
};

double normalDensity(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double normalBelow(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

} // namespace

std::unique_ptr<CostModel> constantModel() { return std::make_unique<ConstantModel>(); }

double pairwiseAccuracy(const CostModel &model, std::span<const Features> rows,
                        std::span<const double> seconds) {
  constexpr double kDiffers = 1.01;
  std::vector<Prediction> predictions = model.predict(rows);
  int64_t pairs = 0;
  double right = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < rows.size(); ++j) {
      if (!(seconds[j] > seconds[i] * kDiffers))
        continue;
      ++pairs;
      double ahead = predictions[i].score - predictions[j].score;
      right += ahead > 0 ? 1 : ahead == 0 ? 0.5 : 0;
    }
  return pairs ? right / double(pairs) : 0.5;
}

double valueOf(const Prediction &prediction, Acquisition acquisition, double best) {
  if (acquisition == Acquisition::Mean || prediction.deviation <= 0)
    return acquisition == Acquisition::ExpectedImprovement ? std::max(0.0, prediction.score - best)
                                                           : prediction.score;
  if (acquisition == Acquisition::UpperBound)
    return prediction.score + prediction.deviation;
  double ahead = (prediction.score - best) / prediction.deviation;
  return prediction.deviation * (ahead * normalBelow(ahead) + normalDensity(ahead));
}

} // namespace tensmith::tune
