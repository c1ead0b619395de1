// A run of `tensmith train`, once its settings are known.
#pragma once

#include "client/Compiler.h"

namespace tensmith::client {

/// The exit status: 130 where it was interrupted. Throws Failure.
int trainRun(train::Settings settings);

} // namespace tensmith::client
