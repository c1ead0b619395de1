// tensmith tune: measures points of a model's kernels, and keeps the fastest for compilations.
#include "client/Progress.h"
#include "files/Failure.h"
#include "files/Files.h"
#include "files/Paths.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"
#include "train/Settings.h"
#include "tune/ModelTuner.h"
#include "tune/Page.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <fmt/format.h>
#include <iostream>
#include <optional>

namespace tensmith::cli {
namespace {

struct Settings {
  tune::TuneRequest request;
  std::string time, json, html, loss, optimiser = "sgd", kernelLoss = "rank", acquisition = "mean";
  bool features = false;
};

std::atomic<bool> isStopped = false;
static_assert(std::atomic<bool>::is_always_lock_free); // a signal handler sets it

/// The first SIGINT or SIGTERM asks for an end after the batch; the second one ends the process.
void catchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { isStopped = true; };
  action.sa_flags = int(SA_RESETHAND);
  for (int number : {SIGINT, SIGTERM})
    ::sigaction(number, &action, nullptr);
}

/// "10m", "90s", "1.5h", "30".
double secondsOf(const std::string &text) {
  size_t end = 0;
  double number = -1;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception &) {
  }
  std::string unit = text.substr(std::min(end, text.size()));
  double factor = unit == "h" ? 3600 : unit == "m" ? 60 : unit == "s" || unit.empty() ? 1 : -1;
  if (!(number > 0) || factor < 0)
    failUsage("--time " + text + " is no time; 90s, 10m and 1.5h are");
  return number * factor;
}

std::string lineOf(const tune::TuneProgress &progress) {
  return fmt::format("{} trials, kernels {} -> {}, a trial may win {}", progress.trials,
                     timeText(progress.before), timeText(progress.best), timeText(progress.gain));
}

std::string microseconds(const Json &value) {
  double number = value.is_number() ? value.get<double>() : 0;
  return number > 0 ? fmt::format("{:.2f}", number) : "-";
}

void print(const Json &report) {
  Table table({"uses", "trials", "before us", "after us", "points", "kernel", "choices"});
  for (const Json &kernel : report["kernels"]) {
    std::string why = kernel["untunable"].get<std::string>();
    bool isNew = kernel["choices"] != kernel["estimated"];
    table.add({fmt::format("{:.0f}", kernel["uses"].get<double>()),
               fmt::format("{}", kernel["trials"].get<int64_t>()),
               microseconds(kernel["before_us"]), microseconds(kernel["after_us"]),
               fmt::format("{}", kernel["points"].get<uint64_t>()), cellText(kernel["kernel"]),
               !why.empty() ? why
               : isNew      ? cellText(kernel["choices"])
                            : "as estimated"});
  }
  std::cout << table.text()
            << fmt::format("{} trials in {:.0f} s, {} of them failed; {}\n",
                           report["trials"].get<int64_t>(), report["seconds"].get<double>(),
                           report["failures"].get<int64_t>(), cellText(report["database"]));
  if (report["before_ms"].is_number())
    std::cout << fmt::format("the model: {:.3f} ms before, {:.3f} ms after\n",
                             report["before_ms"].get<double>(), report["after_ms"].get<double>());
}

int printFeatures(bool asJson) {
  Json names = tune::featureNames();
  if (asJson) {
    printJson(names);
    return kSuccess;
  }
  Table table({"number", "feature", "meaning"});
  for (size_t i = 0; i < names.size(); ++i)
    table.add({std::to_string(i), cellText(names[i]["name"]), cellText(names[i]["meaning"])});
  std::cout << table.text();
  return kSuccess;
}

int tuneIt(Settings settings) {
  tune::TuneRequest &request = settings.request;
  if (settings.features)
    return printFeatures(!settings.json.empty());
  if (request.model.empty())
    failUsage("tune needs a model (or --features)");
  if (!settings.time.empty())
    request.seconds = secondsOf(settings.time);
  if (request.seconds <= 0 && request.trials <= 0)
    failUsage("tune needs a box: --time 10m or --trials 1000");
  if (request.database.empty())
    request.database = request.compile.tuned.database;
  if (request.database.empty())
    failUsage("there is no folder for tuned points; name a file (--database FILE)");
  for (const std::string &file : {settings.json, settings.html})
    if (Status status = file.empty() ? Status() : checkWritable(file); !status.ok())
      throw Failure(status.message());
  request.tuning.loss = settings.kernelLoss == "rank" ? tune::Loss::Rank : tune::Loss::Regression;
  request.tuning.acquisition = settings.acquisition == "mean" ? tune::Acquisition::Mean
                               : settings.acquisition == "upper-bound"
                                   ? tune::Acquisition::UpperBound
                                   : tune::Acquisition::ExpectedImprovement;
  // A step's schedule and epochs decide nothing of its kernels.
  train::Settings training;
  std::optional<TrainingRequest> step;
  if (!settings.loss.empty()) {
    training.model = request.model;
    training.loss = settings.loss;
    training.optimiser = settings.optimiser;
    request.training = &step.emplace(TrainingRequest{&training, 1000, 100});
  }
  bool shows = request.compile.progress;
  request.compile.progress = false;
  Progress progress("tuning " + request.model, shows);
  catchSignals();
  tune::TuneCallbacks callbacks;
  callbacks.stop = &isStopped;
  callbacks.say = [&](const std::string &line) { progress.say(line); };
  callbacks.progress = [&](const tune::TuneProgress &now) {
    double part = request.trials ? double(now.trials) / double(request.trials)
                                 : now.elapsed / request.seconds;
    progress.update(now.kernel, std::min(part, 1.0), lineOf(now));
  };
  Json report = tune::tuneModel(request, callbacks);
  if (!settings.html.empty())
    writeFile(settings.html, tune::pageOf(report));
  if (settings.json == "-")
    printJson(report);
  else if (!settings.json.empty())
    writeFile(settings.json, report.dump(2) + "\n");
  if (settings.json != "-")
    print(report);
  return kSuccess;
}

} // namespace

void addTune(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  tune::TuneRequest &request = settings->request;
  CLI::App *command =
      app.add_subcommand("tune", "Measure choices for a model's kernels, and keep the fastest");
  command->add_option("MODEL", request.model, "ONNX, a program of the language, or graph text");
  command->add_option("--time", settings->time, "How long: 90s, 10m, 1.5h")->type_name("TIME");
  command->add_option("--trials", request.trials, "How many points, all kernels together")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--database", request.database,
                   "Where what is found is kept (default: where compilations look for it)")
      ->type_name("FILE");
  command->add_option("--json", settings->json, "Write the report there; -: print it")
      ->type_name("FILE");
  command->add_option("--html", settings->html, "Write the report as a page")->type_name("FILE");
  std::vector<std::string> searches;
  for (const tune::SearchKind &kind : tune::searchKinds())
    searches.emplace_back(kind.name);
  command
      ->add_option("--search", request.tuning.search,
                   "annealing (default), evolutionary: under a cost model; genetic, greedy, "
                   "actor-critic, walks, rnn, random, grid: without")
      ->type_name("NAME")
      ->check(CLI::IsMember(searches));
  command
      ->add_option("--model-loss", settings->kernelLoss,
                   "What the cost model learns: rank (default), which of two is faster; "
                   "regression, how fast each is")
      ->type_name("LOSS")
      ->check(CLI::IsMember({"rank", "regression"}));
  command
      ->add_option("--acquisition", settings->acquisition,
                   "What the search goes by: mean (default), upper-bound, expected-improvement")
      ->type_name("NAME")
      ->check(CLI::IsMember({"mean", "upper-bound", "expected-improvement"}));
  command->add_option("--seed", request.tuning.seed, "Of all that is drawn (default: 1)")
      ->type_name("N");
  command->add_option("--batch", request.tuning.batch, "Points of a round (default: 8)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--runner", request.runners.commands,
                   "A command that runs modules as tensmith-run does, started without a shell: "
                   "\"ssh board tensmith-run\"; several take turns (repeatable)")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  command
      ->add_option("--run-threads", request.runners.threads,
                   "Threads of a candidate (default: as many as CPUs)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--run-seconds", request.runners.repeatSeconds,
                   "How long a candidate's runs take at least, each time (default: 0.03)")
      ->type_name("S")
      ->check(CLI::Range(0.0, 60.0));
  command
      ->add_option("--loss", settings->loss,
                   "Tune a step of training by this loss: cross_entropy, mean_squared_error")
      ->type_name("NAME");
  command->add_option("--optimiser", settings->optimiser, "Of that step (default: sgd)")
      ->type_name("NAME");
  command->add_flag("!--no-decisions", request.tunesDecisions,
                    "Tune kernels' points alone, and not what rewrites decide for operators");
  command->add_flag("--features", settings->features,
                    "Print what is told of a candidate's loop program, and what it means");
  addCompilation(*command, request.compile, true);
  command->footer("Examples:\n"
                  "  tensmith tune resnet50.onnx --time 10m\n"
                  "  tensmith tune model.onnx --shape batch=1 --trials 500 --html report.html\n"
                  "  tensmith tune model.onnx --time 2m --runner \"ssh board tensmith-run\" "
                  "--target aarch64:cortex-a76\n"
                  "Ctrl-C ends it after the batch, and keeps what was found.");
  command->callback([settings, &chosen] { chosen = [settings] { return tuneIt(*settings); }; });
}

} // namespace tensmith::cli
