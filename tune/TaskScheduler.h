// Which kernel of a model to tune next.
//
// As Ansor's task scheduler (Zheng et al., 2020, section 6): the model's time is the sum of its
// kernels' times by how often each is called, and the next trials go to the kernel whose time they
// are expected to lower most: by what its last trials won, and by what is to be hoped for, which is
// its whole time over the trials that it had, or what kernels of its kind reach.
#pragma once

#include "tune/SearchSpace.h"

#include <optional>

namespace tensmith::tune {

struct Task {
  double uses = 1, flops = 0, bytes = 0;
  std::string kind;
  double best = 0; // seconds of a call
  int64_t trials = 0;
  std::vector<double> history; // the best time after each round, the first is before any
  bool isDone = false;         // nothing more can be tried
};

/// Of a kernel that nobody has run: what it has to do in the model's run, as a number that can be
/// compared.
double weightOf(const Task &task);

/// What trials of the task are expected to win, in seconds of the model's run for each.
double expectedGain(const Task &task, std::span<const Task> all);

/// The number of the task; every task has a round first, the longest one's before others. Now and
/// then one is drawn. Nothing where all are done.
std::optional<size_t> nextTask(std::span<const Task> tasks, Random &random);

/// Of the model's run: seconds in these kernels.
double totalSeconds(std::span<const Task> tasks);

} // namespace tensmith::tune
