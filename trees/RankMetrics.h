// Metrics that compare the order of predictions with that of labels.
#pragma once

#include "trees/Objective.h"

namespace tensmith::trees {

/// Weighted, ties of outputs count half; of groups the mean over those that have both labels. 0.5
/// where there is one class alone.
double areaUnderCurve(const Rows &rows, const Objective &, const Parameters &, double);
/// Of groups; a group without relevant rows counts 1.
double ndcg(const Rows &rows, const Objective &, const Parameters &, double first);
double averagePrecision(const Rows &rows, const Objective &, const Parameters &, double first);
double coxLikelihood(const Rows &rows, const Objective &, const Parameters &, double);

} // namespace tensmith::trees
