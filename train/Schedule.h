// What a run's settings are to the program of its schedule: constants at the top of it.
#pragma once

#include "train/Settings.h"

#include <utility>

namespace tensmith::train {

/// The program of the schedule: of a constant rate that has a warm-up another one, since a rate
/// that no step changes is a number in the kernels.
std::string scheduleProgram(const Settings &settings);

/// Of a run of so many steps. Of a program of the caller's own, those that were set.
std::vector<std::pair<std::string, double>> scheduleConstants(const Settings &settings,
                                                              int64_t steps, int64_t stepsInEpoch);

/// Refuses settings of a schedule that is not the one chosen; throws Failure.
void checkSchedule(const Settings &settings);

} // namespace tensmith::train
