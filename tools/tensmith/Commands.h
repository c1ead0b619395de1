// The subcommands: each adds itself, with its options and its help, and what it does when chosen.
#pragma once

#include "client/Compiler.h"
#include "files/Failure.h"

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace tensmith::cli {

using namespace client;

/// Run by main() after the command line is read; gives the exit status, throws Failure.
using Action = std::function<int()>;

/// The options of a compilation; `threadsToo`: how many it takes, where the command has no such
/// option of its own.
void addCompilation(CLI::App &command, CompileSettings &settings, bool threadsToo);

void addCompile(CLI::App &app, Action &chosen);
void addRun(CLI::App &app, Action &chosen);
void addCache(CLI::App &app, Action &chosen);
void addBench(CLI::App &app, Action &chosen);
void addInspect(CLI::App &app, Action &chosen);
void addCompare(CLI::App &app, Action &chosen);
void addExport(CLI::App &app, Action &chosen);
void addQuantize(CLI::App &app, Action &chosen);
void addFormat(CLI::App &app, Action &chosen);
void addMachine(CLI::App &app, Action &chosen);
void addTrain(CLI::App &app, Action &chosen);
void addTrees(CLI::App &app, Action &chosen);
void addTune(CLI::App &app, Action &chosen);
void addTuned(CLI::App &app, Action &chosen);
void addDoctor(CLI::App &app, Action &chosen);
void addHelp(CLI::App &app, Action &chosen);
void addVersion(CLI::App &app, Action &chosen);
void addCompletions(CLI::App &app, Action &chosen);
void addMan(CLI::App &app, Action &chosen);

} // namespace tensmith::cli
