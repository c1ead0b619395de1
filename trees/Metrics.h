// How well predictions are: one number for a set of rows, by name.
//
// Metrics take outputs before the transform. Sums are of f64 in the order of rows, so that a metric
// is the same with any number of threads.
#pragma once

#include "trees/Objective.h"

namespace tensmith::trees {

struct Metric {
  const char *name; // "rmse", and what XGBoost calls it
  const char *help;
  bool isBetterGreater;
  /// `argument` is what follows '@' in a name ("ndcg@10"); 0 without one.
  double (*value)(const Rows &rows, const Objective &objective, const Parameters &parameters,
                  double argument);
};

std::span<const Metric> metricTable();

struct NamedMetric {
  std::string name; // with its argument
  const Metric *metric;
  double argument;
};
/// "ndcg@10": an error that lists the names where there is no such metric.
Result<NamedMetric> findMetric(const std::string &name);

} // namespace tensmith::trees
