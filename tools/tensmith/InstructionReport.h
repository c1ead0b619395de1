// Where the time of a run goes, by kind of instruction, by place in a program, and by kernel.
#pragma once

#include "tools/tensmith/Report.h"

namespace tensmith::cli {

/// Of ts_session_profile's list: {"seconds", "kinds": [...], "places": [...], "kernels": [...]}, of
/// which each has "count", "seconds", "mean_seconds" and "share" of all, the slowest first. "kinds"
/// are instructions of the machine for a program (an Invoke has its kernels in it), and of the plan
/// for a graph.
Json instructionsOf(const Json &profile);

void printInstructions(const Json &report);

} // namespace tensmith::cli
