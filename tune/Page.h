// The report of a run of tuning as a page that opens without a network.
#pragma once

#include "client/Compiler.h"

namespace tensmith::tune {

/// Of what `tuneModel` gives: for each kernel the best time by trials, what the cost model
/// predicted against what was measured, and which choices mattered.
std::string pageOf(const client::Json &report);

} // namespace tensmith::tune
