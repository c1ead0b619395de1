// Where boosting starts: the outputs that each channel has before the first tree.
#pragma once

#include "trees/Gradients.h"
#include "trees/Training.h"

namespace tensmith::trees {

/// As the objective's `base` says: the mean label, one Newton step from zero, a quantile of the
/// labels, or the logarithms of the classes' shares. Outputs, not predictions.
Result<std::vector<double>> baseScores(const Objective &objective, const Parameters &parameters,
                                       const Rows &rows, Threads &threads, Exchange *exchange);

/// The value below which a share of the weight lies: of `values` sorted, the least one whose
/// weight up to it reaches the share, interpolated as NumPy does where there are no weights.
float weightedQuantile(std::vector<std::pair<float, float>> &values, double share, bool isWeighted);

/// Sums of pairs (a, b) over all rows and processes, exact after rounding.
Result<GradientSum> sumOfAll(std::vector<Gradient> &pairs, Threads &threads, Exchange *exchange);
/// Rounds to the quantum of all processes' gradients.
Status roundTogether(std::span<Gradient> gradients, Threads &threads, Exchange *exchange);

} // namespace tensmith::trees
