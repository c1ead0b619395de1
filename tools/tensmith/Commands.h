// The subcommands: each adds itself, with its options and its help, and what it does when chosen.
#pragma once

#include "files/Failure.h"

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace tensmith::cli {

/// Run by main() after the command line is read; gives the exit status, throws Failure.
using Action = std::function<int()>;

void addCompile(CLI::App &app, Action &chosen);
void addRun(CLI::App &app, Action &chosen);
void addBench(CLI::App &app, Action &chosen);
void addInspect(CLI::App &app, Action &chosen);
void addCompare(CLI::App &app, Action &chosen);
void addFormat(CLI::App &app, Action &chosen);
void addMachine(CLI::App &app, Action &chosen);
void addTrain(CLI::App &app, Action &chosen);

} // namespace tensmith::cli
