// The time of a module's run, for choices that are made by measuring.
#pragma once

#include "base/Status.h"

#include <string>

namespace tensmith {

/// Seconds of the fastest of some runs of the module with these bytes, by the runtime, on all
/// threads, with drawn inputs: tensors of constant shapes.
Result<double> secondsOfModule(const std::string &bytes);

} // namespace tensmith
