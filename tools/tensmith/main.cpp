// tensmith: the command line. Reads the arguments, runs one command, and says on stderr what
// failed: "tensmith: file: what; what to do".
#include "files/Words.h"
#include "tools/tensmith/Commands.h"
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

std::vector<std::string> commandNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// The options that this command takes, its groups' included.
std::vector<std::string> optionNames(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  for (const CLI::App *group : command.get_subcommands([](const CLI::App *) { return true; }))
    for (const std::string &name : optionNames(*group))
      names.push_back(name);
  return names;
}

/// The message for arguments that CLI11 could not place.
std::string unexpected(const CLI::App &app, const std::vector<std::string> &words) {
  auto chosen = app.get_subcommands();
  std::string help = "tensmith " + (chosen.empty() ? "" : chosen[0]->get_name() + " ") + "--help";
  std::vector<std::string> known = optionNames(chosen.empty() ? app : *chosen[0]);
  for (const std::string &word : words) {
    std::string name = word.substr(0, word.find('='));
    if (chosen.empty() && !name.starts_with("-"))
      return fmt::format("there is no command '{}'{}", printable(word),
                         suggestion(name, commandNames(app))) +
             "; see " + help;
    if (name.starts_with("--") && std::ranges::find(known, name) == known.end())
      return fmt::format("there is no option {}{}; see {}", printable(name),
                         suggestion(name, known), help);
  }
  return "'" + printable(words.empty() ? "" : words[0]) + "' is not expected; see " + help;
}

/// What was left over; all, where nothing is known to be placed.
std::vector<std::string> unplaced(const CLI::App &app, int argc, char **argv) {
  std::vector<std::string> left = app.remaining(/*recurse=*/true);
  return left.empty() ? std::vector<std::string>(argv + 1, argv + argc) : left;
}

int usage(const CLI::App &app, const CLI::ParseError &error, int argc, char **argv) {
  if (error.get_exit_code() == 0) // --help and --version
    return app.exit(error);
  if (argc < 2) {
    std::cerr << app.help();
    return kUsage;
  }
  auto chosen = app.get_subcommands();
  if (dynamic_cast<const CLI::ExtrasError *>(&error) || chosen.empty())
    return report(unexpected(app, unplaced(app, argc, argv)), kUsage);
  std::string what = error.what();
  if (size_t name = what.find(": At Most 1 required"); name != std::string::npos)
    what = what.substr(0, name) + " is given more than once; say it once";
  return report(fmt::format("{}: {}; see tensmith {} --help", chosen[0]->get_name(), what,
                            chosen[0]->get_name()),
                kUsage);
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
  app.footer(
      "Examples:\n"
      "  tensmith run model.onnx --input x=photo.png --top 5\n"
      "  tensmith compile model.onnx -o model.so --shape batch=4\n"
      "  tensmith bench model.so --kernels\n"
      "  tensmith train model.onnx --data pictures/ --epochs 10\n"
      "'tensmith COMMAND --help' tells more of each. Exit status: 0 done, 1 failed (or: the\n"
      "tensors differ), 2 the command line can't be meant.");
  app.set_version_flag("--version", std::string("tensmith ") + ts_version());
  app.require_subcommand(1);
  Action action;
  addRun(app, action);
  addCompile(app, action);
  addBench(app, action);
  addInspect(app, action);
  addCompare(app, action);
  addExport(app, action);
  addFormat(app, action);
  addMachine(app, action);
  addCache(app, action);
  addTrain(app, action);
  addTrees(app, action);
  int status;
  try {
    app.parse(argc, argv);
    status = withFailuresSaid(action, report);
  } catch (const CLI::ParseError &error) {
    status = usage(app, error, argc, argv);
  }
  std::cout.flush();
  if (!std::cout && status == kSuccess)
    return reportUnwritten();
  return status;
}
