// The gradient of the model's time by trials; see TaskScheduler.h.
#include "tune/TaskScheduler.h"

#include <algorithm>

namespace tensmith::tune {
namespace {

constexpr double kPast = 0.2;   // the past's part of the gradient, the rest is hope
constexpr double kReach = 2;    // how far above the best of its kind a kernel may get
constexpr int64_t kWindow = 3;  // rounds that are looked back
constexpr double kDrawn = 0.05; // of the rounds

/// Operations in a second of the fastest of the kind.
double speedOfKind(const Task &task, std::span<const Task> all) {
  double most = 0;
  for (const Task &other : all)
    if (&other != &task && other.kind == task.kind && other.best > 0)
      most = std::max(most, other.flops / other.best);
  return most;
}

} // namespace

double weightOf(const Task &task) {
  constexpr double kOperationsOfByte = 8; // where operands are a bottleneck, too
  return task.uses * (task.flops + kOperationsOfByte * task.bytes);
}

double expectedGain(const Task &task, std::span<const Task> all) {
  if (task.isDone || task.best <= 0 || task.history.empty())
    return 0;
  auto rounds = int64_t(task.history.size()) - 1;
  int64_t back = std::min(kWindow, rounds);
  double past = back > 0 ? (task.history[size_t(rounds - back)] - task.best) / double(back) : 0;
  double hope = task.best / double(std::max<int64_t>(rounds, 1));
  if (double speed = speedOfKind(task, all); speed > 0 && task.flops > 0)
    hope = std::min(hope, std::max(0.0, task.best - task.flops / (kReach * speed)));
  return task.uses * (kPast * past + (1 - kPast) * hope);
}

std::optional<size_t> nextTask(std::span<const Task> tasks, Random &random) {
  std::vector<size_t> open;
  for (size_t i = 0; i < tasks.size(); ++i)
    if (!tasks[i].isDone)
      open.push_back(i);
  if (open.empty())
    return std::nullopt;
  auto isLess = [&](size_t a, size_t b) { return weightOf(tasks[a]) < weightOf(tasks[b]); };
  std::vector<size_t> fresh;
  std::ranges::copy_if(open, std::back_inserter(fresh),
                       [&](size_t i) { return tasks[i].trials == 0; });
  if (!fresh.empty())
    return *std::ranges::max_element(fresh, isLess);
  if (random.uniform() < kDrawn)
    return open[random.below(open.size())];
  return *std::ranges::max_element(open, {},
                                   [&](size_t i) { return expectedGain(tasks[i], tasks); });
}

double totalSeconds(std::span<const Task> tasks) {
  double seconds = 0;
  for (const Task &task : tasks)
    seconds += task.uses * task.best;
  return seconds;
}

} // namespace tensmith::tune
