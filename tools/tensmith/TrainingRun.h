// A run of `tensmith train`, once its settings are known.
#pragma once

#include "tools/tensmith/Compiler.h"

namespace tensmith::cli {

/// The exit status: 130 where it was interrupted. Throws Failure.
int trainRun(train::Settings settings);

} // namespace tensmith::cli
