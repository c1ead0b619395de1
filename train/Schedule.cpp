// Which setting is which constant, and which schedules that come with Tensmith have it.
#include "train/Schedule.h"

#include "files/Failure.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tensmith::train {
namespace {

struct Constant {
  const char *option, *name;
  std::vector<std::string> schedules;
};

const std::vector<Constant> &constants() {
  static const std::vector<Constant> all = {
      {"warm-up", "warmup", {"constant", "cosine", "step"}},
      {"final-rate", "least", {"cosine"}},
      {"step-every", "every", {"step"}},
      {"step-factor", "factor", {"step"}},
  };
  return all;
}

double valueOf(const Settings &settings, const std::string &constant, int64_t stepsInEpoch) {
  return constant == "warmup"  ? double(settings.warmUp)
         : constant == "least" ? settings.finalRate
         : constant == "every" ? double(settings.stepEvery * stepsInEpoch)
                               : settings.stepFactor;
}

bool isOwn(const Settings &settings) { return settings.schedule.ends_with(".tsm"); }

} // namespace

std::string scheduleProgram(const Settings &settings) {
  return settings.schedule == "constant" && settings.warmUp > 0 ? "warmup" : settings.schedule;
}

std::vector<std::pair<std::string, double>> scheduleConstants(const Settings &settings,
                                                              int64_t steps, int64_t stepsInEpoch) {
  std::vector<std::pair<std::string, double>> result = {{"learning_rate", settings.learningRate}};
  for (const Constant &constant : constants()) {
    bool read = isOwn(settings) ? settings.origins.contains(constant.option)
                                : std::ranges::find(constant.schedules, settings.schedule) !=
                                      constant.schedules.end();
    bool isNone = settings.schedule == "constant" && settings.warmUp == 0;
    if (read && !isNone)
      result.emplace_back(constant.name, valueOf(settings, constant.name, stepsInEpoch));
  }
  if (settings.schedule == "cosine")
    result.emplace_back("steps", double(steps));
  return result;
}

void checkSchedule(const Settings &settings) {
  if (settings.schedule == "step" && settings.stepEvery == 0)
    failUsage(settings.origin("schedule") +
              ": the schedule 'step' needs --step-every (`step_every` in [schedule])");
  for (const Constant &constant : constants())
    if (settings.origins.contains(constant.option) && !isOwn(settings) &&
        std::ranges::find(constant.schedules, settings.schedule) == constant.schedules.end())
      failUsage(fmt::format("{}: the schedule '{}' has no --{}; {} has",
                            settings.origin(constant.option), settings.schedule, constant.option,
                            fmt::join(constant.schedules, ", ")));
}

} // namespace tensmith::train
