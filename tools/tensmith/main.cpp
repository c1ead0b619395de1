// tensmith: the command line. Reads the arguments, runs one command, and says on stderr what
// failed: "tensmith: file: what; what to do".
#include "client/Verbosity.h"
#include "tools/tensmith/GenerateCommand.h"
#include "tools/tensmith/Usage.h"
#include "tools/tensors/Failures.h"

#include <CLI/CLI.hpp>

#include <tensmith/tensmith.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <poll.h>
#include <unistd.h>

using namespace tensmith;
using namespace tensmith::cli;

namespace {

int report(const std::string &message, int status) {
  std::cout.flush();
  std::fprintf(stderr, "tensmith: %s\n", message.c_str());
  return status;
}

int usage(const CLI::App &app, const CLI::ParseError &error,
          const std::vector<std::string> &words) {
  if (error.get_exit_code() == 0) // --help and --version
    return app.exit(error);
  if (!words.empty())
    return report(usageMessage(app, error, words), kUsage);
  std::cerr << app.help();
  return kUsage;
}

std::string exitStatusText() {
  std::string text;
  for (const ExitMeaning &one : kExitStatuses)
    text += fmt::format("  {:<4} {}\n", one.status, one.meaning);
  return text;
}

/// --quiet and --verbose, of the program and of each of its commands.
void addMessages(CLI::App &app) {
  auto inner = app.get_subcommands([](const CLI::App *) { return true; });
  auto *group = app.add_option_group("Messages", "On the error output, beside errors");
  group->footer("");
  group->add_flag_callback(
      "-q,--quiet", [] { setVerbosity(Verbosity::Quiet); }, "None: no warnings, notes or progress");
  group->add_flag_callback(
      "-v,--verbose", [] { setVerbosity(Verbosity::Verbose); },
      "More: each stage with its time, and what comes from the cache");
  for (CLI::App *command : inner)
    if (!command->get_name().empty())
      addMessages(*command);
}

/// A pipe whose reader has gone, as `head` goes.
bool hasNoReader(int descriptor) {
  pollfd output = {descriptor, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

/// Quietly where nobody reads on: by the signal that other programs get then.
int reportUnwritten() {
  if (hasNoReader(STDOUT_FILENO)) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  return report("the output can't be written; free some space, or write elsewhere", kFailure);
}

} // namespace

int main(int argc, char **argv) {
  // A reader that goes away and a file that may not grow are errors of writing: a run of training
  // that nobody watches is finished.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("Compiles neural networks to native modules, and runs them.", "tensmith");
  app.set_version_flag("--version,-V", std::string("tensmith ") + ts_version());
  app.require_subcommand(1);
  Action action;
  addRun(app, action);
  addCompile(app, action);
  addBench(app, action);
  addInspect(app, action);
  addCompare(app, action);
  addExport(app, action);
  addQuantize(app, action);
  addFormat(app, action);
  addGenerate(app, action);
  addServe(app, action);
  addMachine(app, action);
  addCache(app, action);
  addTrain(app, action);
  addTrees(app, action);
  addTune(app, action);
  addTuned(app, action);
  addDoctor(app, action);
  addVersion(app, action);
  addHelp(app, action);
  addCompletions(app, action);
  addMan(app, action);
  addMessages(app);
  // Last, since commands would have it as well.
  app.footer("Examples:\n"
             "  tensmith run model.onnx --input x=photo.png --top 5\n"
             "  tensmith compile model.onnx -o model.so --shape batch=4\n"
             "  tensmith bench model.so --kernels\n"
             "  tensmith train model.onnx --data pictures/ --epochs 10\n"
             "'tensmith help COMMAND' tells more of each. Exit status:\n" +
             exitStatusText());
  std::vector<std::string> words = understood(app, argc, argv);
  int status;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend())); // taken from the end
    status = withFailuresSaid(action, report);
  } catch (const CLI::ParseError &error) {
    status = usage(app, error, words);
  }
  std::cout.flush();
  if (!std::cout && status == kSuccess)
    return reportUnwritten();
  return status;
}
