// tensmith train: a model and data in, a trained model out.
//
// Settings come from a configuration file, and from options, which count more; both from one table
// (train/SettingTable.h). A run has a folder: the compiled step, checkpoints, metrics, the result.
#include "client/Screen.h"
#include "client/TrainingRun.h"
#include "tools/tensmith/Commands.h"

#include "files/Words.h"
#include "train/SettingTable.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

/// What was given, before it is known in which order it counts.
struct Given {
  std::string file;                                      // a configuration, or a model
  std::map<std::string, std::vector<std::string>> words; // by option
  CompileSettings compile;
};

bool isFlag(const train::Setting &setting) {
  return std::holds_alternative<bool train::Settings::*>(setting.field);
}

bool takesSeveral(const train::Setting &setting) {
  return std::holds_alternative<std::vector<std::string> train::Settings::*>(setting.field) ||
         std::holds_alternative<std::map<std::string, double> train::Settings::*>(setting.field);
}

std::string titleOf(const std::string &section) {
  return section.empty()    ? "Run"
         : section == "log" ? "Log"
                            : char(std::toupper(section[0])) + section.substr(1);
}

void addOption(CLI::App &group, const train::Setting &setting, Given &given) {
  std::string name = std::string("--") + setting.option;
  std::vector<std::string> &words = given.words[setting.option];
  if (isFlag(setting)) {
    auto set = [&words](int64_t count) { words = {count > 0 ? "true" : "false"}; };
    group.add_flag_function(name + ",!--no-" + setting.option, set, setting.help);
    return;
  }
  CLI::Option *option = group.add_option(name, words, setting.help)->type_name(setting.valueName);
  if (takesSeveral(setting))
    return;
  option->allow_extra_args(false);
  if (std::holds_alternative<std::vector<double> train::Settings::*>(setting.field))
    option->delimiter(',');
  else
    option->expected(1);
}

train::Settings settingsOf(const Given &given) {
  train::Settings settings;
  bool configured = given.file.ends_with(".toml");
  if (configured)
    train::readConfiguration(given.file, settings);
  else if (!given.file.empty())
    settings.model = given.file;
  for (const train::Setting &setting : train::settingTable()) {
    auto words = given.words.find(setting.option);
    if (words == given.words.end() || words->second.empty())
      continue;
    std::string problem = train::assign(settings, setting, words->second);
    if (!problem.empty())
      failUsage(std::string("--") + setting.option + " " + problem);
    settings.origins[setting.option] = std::string("--") + setting.option;
  }
  train::checkSettings(settings);
  return settings;
}

std::atomic<int> stopSignal = 0;
static_assert(std::atomic<int>::is_always_lock_free); // a signal handler sets it

/// The first SIGINT or SIGTERM asks for an end after the step; the second one ends the process.
void catchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { stopSignal = number; };
  action.sa_flags = int(SA_RESETHAND);
  for (int number : {SIGINT, SIGTERM})
    ::sigaction(number, &action, nullptr);
}

void tellOfInterruption(train::Watcher &watcher, const train::Outcome &outcome) {
  watcher.say(fmt::format("interrupted after step {}; {}", outcome.position.step,
                          outcome.checkpoint.empty()
                              ? "go on with --resume"
                              : outcome.checkpoint.string() + " is kept, go on with --resume"));
}

void report(const Trained &trained) {
  auto line = [](const train::Metric &metric) {
    std::cout << fmt::format(
        "{}: loss {:.4f}{}\n", metric.kind, metric.loss,
        metric.accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *metric.accuracy) : "");
  };
  const train::Outcome &outcome = trained.outcome;
  if (outcome.validation)
    line(*outcome.validation);
  if (outcome.test)
    line(*outcome.test);
  std::cout << fmt::format("{}: {} steps in {:.0f} s; {}, model.so, curves.html\n",
                           trained.folder.string(), outcome.position.step, outcome.position.seconds,
                           trained.model.filename().string());
}

int trainRun(train::Settings settings) {
  catchSignals();
  auto watch = [](bool first) -> std::unique_ptr<train::Watcher> {
    if (first)
      return std::make_unique<Screen>();
    return std::make_unique<Silent>();
  };
  Trained trained =
      trainModel(std::move(settings), {}, {watch, stopSignal, true, tellOfInterruption});
  if (trained.outcome.interrupted)
    return 128 + (stopSignal ? stopSignal.load() : SIGTERM); // another process may have got it
  if (trained.first)
    report(trained);
  return kSuccess;
}

} // namespace

void addTrain(CLI::App &app, Action &chosen) {
  auto given = std::make_shared<Given>();
  CLI::App *command = app.add_subcommand("train", "Train a model");
  command->add_option("FILE", given->file,
                      "A configuration (.toml) that says all that the options say, or an ONNX "
                      "model");
  std::map<std::string, CLI::Option_group *> groups;
  for (const train::Setting &setting : train::settingTable()) {
    CLI::Option_group *&group = groups[setting.section];
    if (!group)
      group = command->add_option_group(
          titleOf(setting.section),
          *setting.section ? "In a configuration: [" + std::string(setting.section) + "]"
                           : "In a configuration: before the first section");
    addOption(*group, setting, *given);
  }
  command->footer(
      "Examples:\n"
      "  tensmith train examples/fashion/train/fashion.toml\n"
      "  tensmith train fashion.toml --resume\n"
      "  tensmith train model.onnx --data pictures/ --optimiser adam --learning-rate 1e-3 \\\n"
      "      --epochs 10 --batch 128 --validation 0.1 --flip\n"
      "  tensmith train model.onnx --data table.csv --loss mean_squared_error --target price\n"
      "  tensmith train network.tsm --data pictures/ --epochs 10\n"
      "  mpirun -n 4 tensmith train fashion.toml --threads 1 --zero 1\n"
      "The output has checkpoints/ (safetensors), metrics.jsonl, tensorboard/, curves.html, and "
      "at\n"
      "the end model.onnx (of a program model.tsm, too) and model.so. SIGINT ends a run after a "
      "checkpoint, with status 130.");
  command->callback(
      [given, &chosen] { chosen = [given] { return trainRun(settingsOf(*given)); }; });
}

} // namespace tensmith::cli
