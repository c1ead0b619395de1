// tensmith bench: how long a run takes, and where the time goes.
#include "client/Compiler.h"
#include "client/Progress.h"
#include "client/Verbosity.h"
#include "files/Files.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Inputs.h"
#include "tools/tensmith/KernelReport.h"
#include "train/StepTrace.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <numeric>
#include <optional>
#include <span>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string file, trace, html;
  int runs = 0, warmUp = 3, threads = 0;
  bool kernels = false, json = false;
  InputSettings inputs;
  CompileSettings compile;
};

// Without --runs: as many runs as fit this time, within these bounds.
constexpr double kSeconds = 2;
constexpr int kFewestRuns = 10, kMostRuns = 1000;

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Seconds of each run; outputs are written into the same memory each time.
std::vector<double> measure(const Session &session, const std::vector<Tensor> &inputs,
                            const Settings &settings) {
  Progress progress("measuring " + settings.file);
  std::vector<Tensor> outputs = session.run(inputs);
  for (int i = 1; i < settings.warmUp; ++i)
    session.run(inputs, outputs);
  std::vector<double> times;
  auto start = Clock::now();
  auto wanted = [&](int done) {
    if (settings.runs > 0)
      return done < settings.runs;
    return done < kFewestRuns || (done < kMostRuns && secondsSince(start) < kSeconds);
  };
  for (int i = 0; wanted(i); ++i) {
    auto begin = Clock::now();
    session.run(inputs, outputs);
    times.push_back(secondsSince(begin));
    double fraction = settings.runs > 0
                          ? double(i + 1) / settings.runs
                          : std::max(double(i + 1) / kMostRuns, secondsSince(start) / kSeconds);
    progress.update(fmt::format("run {}", i + 1), fraction);
  }
  std::sort(times.begin(), times.end());
  return times;
}

double quantile(const std::vector<double> &sorted, double q) {
  double at = q * double(sorted.size() - 1);
  auto below = size_t(at);
  size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

/// Times of the kernels, against the machine's limits where those can be had.
struct KernelFigures {
  Json kernels, limits;
  std::optional<Roofline> roofline;
};

/// The machine's limits; null where there is no compiler to measure them with.
Json machineLimits() {
  try {
    return parseJson(measureMachine(false), "machine")["limits"];
  } catch (const std::exception &error) {
    warn(std::string("the machine's limits are not known: ") + error.what());
    return {};
  }
}

KernelFigures profileKernels(const Session &session, const std::vector<Tensor> &inputs, int runs,
                             double weightsBytes, const Json &limits, const Settings &settings) {
  Progress progress("profiling " + settings.file);
  KernelFigures figures;
  figures.limits = limits;
  figures.kernels =
      kernelsOf(parseJson(session.profile(inputs, size_t(runs)), settings.file), runs);
  if (!limits.is_null()) {
    figures.roofline.emplace(limits, session.threads(), weightsBytes);
    figures.roofline->annotate(figures.kernels);
  }
  return figures;
}

void writeText(const std::string &path, const std::string &text) {
  writeFile(path, std::as_bytes(std::span(text)));
}

std::string textOf(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// ts_session_trace's spans in the Trace Event Format, which chrome://tracing and Perfetto read.
std::string traceText(const Json &spans, const std::string &title) {
  Json events = Json::array();
  train::addChromeEvents(events, spans, 0);
  return textOf(train::chromeTrace(std::move(events), title));
}

Json summary(const std::vector<double> &times, int threads, const Settings &settings) {
  double mean = std::accumulate(times.begin(), times.end(), 0.0) / double(times.size());
  return {{"file", settings.file},
          {"threads", threads},
          {"runs", times.size()},
          {"warm_up", settings.warmUp},
          {"median", quantile(times, 0.5)},
          {"min", times.front()},
          {"mean", mean},
          {"p90", quantile(times, 0.9)},
          {"max", times.back()}};
}

void printSummary(const Json &all) {
  int threads = all["threads"];
  auto time = [&](const char *key) { return timeText(all[key].get<double>()); };
  std::cout << fmt::format("{}: median {}, min {}, mean {}, 90% within {} ({} runs, {} {})\n",
                           cellText(all["file"]), time("median"), time("min"), time("mean"),
                           time("p90"), all["runs"].get<size_t>(), threads,
                           threads == 1 ? "thread" : "threads");
}

constexpr size_t kTracedRuns = 3;

int bench(const Settings &settings) {
  bool kernels = settings.kernels || !settings.html.empty();
  // First, since a model is compiled by them.
  Json limits = kernels ? machineLimits() : Json();
  Module module = loadOrCompile(settings.file, settings.compile);
  auto inputs =
      makeInputs(module.inputs(), settings.inputs, settings.compile.shapes, settings.file);
  Session session(module, {.threads = settings.threads});
  std::vector<double> times;
  KernelFigures figures;
  std::string spans;
  try {
    times = measure(session, inputs, settings);
    double weights = parseJson(module.describe(), settings.file)["weights_bytes"];
    if (kernels)
      figures = profileKernels(session, inputs, int(times.size()), weights, limits, settings);
    if (!settings.trace.empty())
      spans = session.trace(inputs, kTracedRuns);
  } catch (const Error &error) {
    fail(settings.file, error.what());
  }
  Json all = summary(times, session.threads(), settings);
  if (kernels) {
    all["limits"] = figures.limits.is_null() ? Json() : figures.limits["identity"];
    all["kernels"] = figures.kernels;
  }
  if (!settings.trace.empty())
    writeText(settings.trace, traceText(parseJson(spans, settings.file), settings.file));
  if (!settings.html.empty() && !figures.roofline)
    fail(settings.html, "the plot needs the machine's limits, which could not be measured");
  if (!settings.html.empty())
    writeText(settings.html, rooflinePage(all, *figures.roofline));
  if (settings.json) {
    printJson(all);
    return kSuccess;
  }
  printSummary(all);
  if (settings.kernels)
    printKernels(figures.kernels);
  return kSuccess;
}

} // namespace

void addBench(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("bench", "Measure the time of a run");
  command->add_option("FILE", settings->file, "A model (compiled first) or a module")->required();
  command->add_option("--runs", settings->runs, "Default: what fits 2 s, at least 10")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000000));
  command->add_option("--warm-up", settings->warmUp, "Runs before measuring (default 3)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--threads", settings->threads, "Default: as many as CPUs")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--kernels", settings->kernels,
                    "Also each kernel (in runs of their own: measuring costs time): its time, its "
                    "share of what the machine could do, and what it waits for");
  command
      ->add_option("--trace", settings->trace,
                   "Write a timeline of three runs, each thread with its parts of the work, for "
                   "chrome://tracing or ui.perfetto.dev")
      ->type_name("FILE");
  command
      ->add_option("--html", settings->html,
                   "Write a page with the roofline plot of the kernels, which needs no network")
      ->type_name("FILE");
  command->add_flag("--json", settings->json, "As JSON; times in seconds");
  settings->inputs.addTo(*command);
  addCompilation(*command, settings->compile, false);
  command->footer("Examples:\n"
                  "  tensmith bench resnet50.onnx --threads 1\n"
                  "  tensmith bench bert.so --input ids=1x128xi64=range --kernels\n"
                  "  tensmith bench model.so --html roofline.html --trace trace.json");
  command->callback([settings, &chosen] { chosen = [settings] { return bench(*settings); }; });
}

} // namespace tensmith::cli
