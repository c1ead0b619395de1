// A module and a measured run as JSON, for people and programs that look into them.
#pragma once

#include "runtime/Session.h"

#include <string>

namespace tensmith::runtime {

/// Producer, target, signature, kernels, instructions, memory.
std::string describeModule(const Module &module);

/// A list of {"label", "kind", "count", "nanoseconds", "flops", "bytes"}, one for each instruction
/// that ran; flops and bytes are those of all its calls together, flops null where unknown.
std::string describeProfile(const Module &module, const Profile &profile);

/// The JSON of ts_session_trace.
std::string describeTrace(const Module &module, const Trace &trace);

} // namespace tensmith::runtime
