// The subcommands of language models; see Commands.h.
#pragma once

#include "tools/tensmith/Commands.h"

namespace tensmith::cli {

void addGenerate(CLI::App &app, Action &chosen);
void addServe(CLI::App &app, Action &chosen);

} // namespace tensmith::cli
