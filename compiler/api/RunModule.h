// Inputs on which a compilation is checked, from the C API, and the run that it is checked by.
#pragma once

#include "compiler/pipeline/Calibration.h"

#include <tensmith/compiler.h>

#include <optional>

namespace tensmith {

/// InvalidArgument where what is given is not complete.
Status checkCalibration(const ts_compile_options &options);
/// Views of what is given.
std::optional<pipeline::CalibrationInputs> calibrationInputs(const ts_compile_options &options);

/// The outputs of a run of the module with these bytes, by the runtime, on all threads.
Result<std::vector<graph::RuntimeValue>> runModule(const std::string &bytes,
                                                   std::span<const graph::RuntimeValue> inputs);

} // namespace tensmith
