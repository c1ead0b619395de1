// What other kernels of this machine say of one that is new: where a search starts.
//
// Two sources, of which each may be empty. The winners of kernels that differ in their sizes alone,
// the nearest sizes first, with each choice moved to the nearest value that this kernel has. And a
// model of all kernels' history, which sees the features of loop programs, since those mean the
// same of every kernel (the global model of Chen et al., 2018, section 4): of points that are drawn
// it says which are worth a first trial.
//
// Neither is believed beyond that: they fill half of the first batch, and all of the second one
// only where the first showed that the model puts this kernel's points in order. Then the search's
// own model takes over. So a history that misleads costs at most half a batch.
#pragma once

#include "tune/Bench.h"
#include "tune/TunableKernel.h"
#include "tune/database/Database.h"

#include <memory>

namespace tensmith::tune {

/// How far apart the sizes in two structures are, as a sum of logarithms of ratios; nothing where
/// they differ in more than sizes.
std::optional<double> distanceOf(const std::string &structure, const std::string &other);

/// Winners of the same machine as points of this kernel, at most so many, all different.
std::vector<Configuration> nearestPoints(const TunableKernel &kernel, const Database &database,
                                         size_t most);

/// What other kernels have taught.
struct History {
  std::unique_ptr<CostModel> model;
  size_t length = 0; // of its rows of features
};

/// Of the trials of other kernels of the machine, by the same compiler; nothing where they are too
/// few to learn from.
std::optional<History> historyOf(const KernelName &kernel, const Database &database,
                                 const std::string &compiler, uint64_t seed);

/// Of points that are drawn, those that the history likes, the best first.
std::vector<Configuration> likeliest(const TunableKernel &kernel, const History &history,
                                     Bench &bench, Random &random, size_t count);

} // namespace tensmith::tune
