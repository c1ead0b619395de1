// Objectives in which a row's derivatives depend on other rows: ranking within groups, and Cox's
// proportional hazards over all rows.
#pragma once

#include "trees/Objective.h"

namespace tensmith::trees {

/// RankNet's pairwise logistic loss (Burges et al., 2005), over all pairs of different grade.
void pairwise(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
              Threads &threads);
/// LambdaMART (Burges, "From RankNet to LambdaRank to LambdaMART", 2010): each pair is weighted by
/// how much NDCG changes if the two change places; gains are 2^grade - 1.
void lambdaMart(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
                Threads &threads);
/// The partial likelihood with Breslow's treatment of ties. Weights scale a row's derivatives.
void cox(const Parameters &parameters, const Rows &rows, std::span<Gradient> gradients,
         Threads &threads);

/// Rows by |label|, ascending; of equal ones in order.
std::vector<uint32_t> orderByTime(std::span<const float> labels);
/// Rows of a group by output, descending; of equal ones in order.
std::vector<uint32_t> orderByOutput(const Rows &rows, int64_t begin, int64_t end);

} // namespace tensmith::trees
