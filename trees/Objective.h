// What boosting minimises: for each objective, the gradient and the diagonal of the Hessian of the
// loss with respect to the outputs, where boosting starts, and how outputs become predictions.
//
// Outputs and gradients are f32, as in XGBoost, row after row: rows × channels. Derivatives of a
// row depend on that row alone, but for ranking (its group) and Cox (all rows).
#pragma once

#include "base/Status.h"
#include "trees/Matrix.h"
#include "trees/Parameters.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tensmith::trees {

class Threads;

struct Gradient {
  float first = 0, second = 0;
};

/// What an objective is given: everything about rows but their features.
struct Rows {
  int64_t count = 0, channels = 1;
  std::span<const float> labels, weights; // weights empty: 1
  std::span<const int64_t> groups;
  std::span<const float> outputs; // count × channels
};

struct Objective {
  const char *name;    // "squared"
  const char *xgboost; // "reg:squarederror"
  const char *metric;  // a name of Metrics.h's table
  const char *help;
  const char *labels; // what labels must be: "0 or 1"
  bool (*takes)(float label);
  void (*gradient)(const Parameters &, const Rows &, std::span<Gradient>, Threads &);
  /// Outputs of one row to predictions, in place; `count` channels.
  void (*transform)(float *row, int64_t count);
  /// Of a prediction: the output that gives it.
  double (*inverse)(double prediction);
  /// Leaves are set to this quantile of what is left over (absolute, quantile loss); negative: not.
  double (*leafQuantile)(const Parameters &) = nullptr;
  enum class Base { Newton, Mean, Quantile, Classes, Zero } base = Base::Newton;
  enum class Task { Regression, Binary, Classes, Ranking, Survival } task = Task::Regression;
};

std::span<const Objective> objectiveTable();
/// By our name or XGBoost's; null where there is none.
const Objective *findObjective(const std::string &name);

/// A loss of the caller's: given outputs (rows × channels), fills gradients and Hessians of the
/// same size, unweighted. Fails with what is to be told.
using OwnLoss = std::function<Status(std::span<const float> outputs, std::span<const float> labels,
                                     std::span<const float> weights, std::span<float> gradients,
                                     std::span<float> hessians)>;

/// How many channels the objective has for these labels: 1, or the number of classes.
Result<int64_t> channelsFor(const Objective &objective, const Parameters &parameters,
                            const Matrix &matrix);
/// Predictions of outputs, in place: rows × channels.
void transformOutputs(const Objective &objective, std::span<float> outputs, int64_t channels);

} // namespace tensmith::trees
