// tensmith bench: how long a run takes, and where the time goes. Several files are run in turns, so
// that what else the machine does falls on all of them alike.
#include "client/Compiler.h"
#include "client/Progress.h"
#include "client/Verbosity.h"
#include "files/Files.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Inputs.h"
#include "tools/tensmith/KernelReport.h"
#include "tools/tensmith/OutputPath.h"
#include "train/StepTrace.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

namespace tensmith::cli {
namespace {

struct Settings {
  std::vector<std::string> files;
  std::string trace, html;
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

/// Times of the kernels, against the machine's limits where those can be had.
struct KernelFigures {
  Json kernels;
  std::optional<Roofline> roofline;
};

/// A file that is measured.
struct Candidate {
  Candidate(const std::string &file, const Settings &settings)
      : file(file), module(loadOrCompile(file, settings.compile)),
        inputs(makeInputs(module.inputs(), settings.inputs, settings.compile.shapes, file)),
        session(module, {.threads = settings.threads, .seed = std::nullopt}) {}

  std::string file;
  Module module;
  std::vector<Tensor> inputs, outputs;
  Session session;
  std::vector<double> times; // seconds of each run
  KernelFigures figures;

  /// A failure names the file.
  template <typename Call> auto named(Call call) {
    try {
      return call();
    } catch (const Error &error) {
      fail(file, error.what());
    }
  }
  void run() {
    named([&] { session.run(inputs, outputs); });
  }
};

using Candidates = std::vector<std::unique_ptr<Candidate>>;

std::string namesOf(const Settings &settings) {
  std::string names;
  for (const std::string &file : settings.files)
    names += (names.empty() ? "" : ", ") + file;
  return names;
}

/// Runs the candidates in turns; outputs are written into the same memory each time.
void measure(Candidates &candidates, const Settings &settings) {
  Progress progress("measuring " + namesOf(settings));
  for (auto &candidate : candidates) {
    candidate->outputs =
        candidate->named([&] { return candidate->session.run(candidate->inputs); });
    for (int i = 1; i < settings.warmUp; ++i)
      candidate->run();
  }
  auto start = Clock::now();
  double seconds = kSeconds * double(candidates.size());
  auto wanted = [&](int done) {
    if (settings.runs > 0)
      return done < settings.runs;
    return done < kFewestRuns || (done < kMostRuns && secondsSince(start) < seconds);
  };
  for (int i = 0; wanted(i); ++i) {
    for (auto &candidate : candidates) {
      auto begin = Clock::now();
      candidate->run();
      candidate->times.push_back(secondsSince(begin));
    }
    double fraction = settings.runs > 0
                          ? double(i + 1) / settings.runs
                          : std::max(double(i + 1) / kMostRuns, secondsSince(start) / seconds);
    progress.update(fmt::format("run {}", i + 1), fraction);
  }
}

double quantile(const std::vector<double> &sorted, double q) {
  double at = q * double(sorted.size() - 1);
  auto below = size_t(at);
  size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

/// The machine's limits; null where there is no compiler to measure them with.
Json machineLimits() {
  try {
    return parseJson(measureMachine(false), "machine")["limits"];
  } catch (const std::exception &error) {
    warn(std::string("the machine's limits are not known: ") + error.what());
    return {};
  }
}

void profileKernels(Candidate &candidate, const Json &limits) {
  Progress progress("profiling " + candidate.file);
  size_t runs = candidate.times.size();
  KernelFigures &figures = candidate.figures;
  candidate.named([&] {
    figures.kernels = kernelsOf(
        parseJson(candidate.session.profile(candidate.inputs, runs), candidate.file), int(runs));
    if (limits.is_null())
      return;
    double weights = parseJson(candidate.module.describe(), candidate.file)["weights_bytes"];
    figures.roofline.emplace(limits, candidate.session.threads(), weights);
    figures.roofline->annotate(figures.kernels);
  });
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

Json summary(const Candidate &candidate, const Settings &settings) {
  std::vector<double> times = candidate.times;
  std::sort(times.begin(), times.end());
  double mean = std::accumulate(times.begin(), times.end(), 0.0) / double(times.size());
  return {{"file", candidate.file},
          {"threads", candidate.session.threads()},
          {"runs", times.size()},
          {"warm_up", settings.warmUp},
          {"median", quantile(times, 0.5)},
          {"min", times.front()},
          {"mean", mean},
          {"p90", quantile(times, 0.9)},
          {"max", times.back()}};
}

/// The median over the turns of a time to the first candidate's in the same turn.
double ratioOf(const Candidate &candidate, const Candidate &first) {
  std::vector<double> ratios;
  for (size_t i = 0; i < candidate.times.size(); ++i)
    ratios.push_back(candidate.times[i] / std::max(first.times[i], 1e-9));
  std::sort(ratios.begin(), ratios.end());
  return quantile(ratios, 0.5);
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

/// What --json gives of each file; with kernels where they were profiled, with the ratio where
/// there are several files.
Json reportOf(const Candidates &candidates, const Json &limits, bool kernels,
              const Settings &settings) {
  Json all = Json::array();
  for (const auto &candidate : candidates) {
    Json one = summary(*candidate, settings);
    if (candidates.size() > 1)
      one["ratio"] = ratioOf(*candidate, *candidates[0]);
    if (kernels) {
      one["limits"] = limits.is_null() ? Json() : limits["identity"];
      one["kernels"] = candidate->figures.kernels;
    }
    all.push_back(std::move(one));
  }
  return all;
}

void writePage(const Json &all, const Candidates &candidates, const Settings &settings) {
  const auto &roofline = candidates[0]->figures.roofline;
  if (candidates.size() > 1)
    return writeText(settings.html, comparisonPage(all));
  if (!roofline)
    fail(settings.html, "the plot needs the machine's limits, which could not be measured");
  writeText(settings.html, rooflinePage(all[0], *roofline));
}

void print(const Json &all, const Settings &settings) {
  for (const Json &one : all) {
    printSummary(one);
    if (settings.kernels)
      printKernels(one["kernels"]);
  }
  for (size_t i = 1; i < all.size(); ++i)
    std::cout << fmt::format("{} takes {:.3f} of the time of {}\n", cellText(all[i]["file"]),
                             all[i]["ratio"].get<double>(), cellText(all[0]["file"]));
}

int bench(const Settings &settings) {
  bool kernels = settings.kernels || !settings.html.empty();
  if (settings.files.size() > 1 && !settings.trace.empty())
    fail(settings.trace, "a timeline is of one file; leave the others out");
  for (const std::string &file : settings.files) {
    keepApart(settings.html, "--html", file, "the model");
    keepApart(settings.trace, "--trace", file, "the model");
  }
  // First, since a model is compiled by them.
  Json limits = kernels ? machineLimits() : Json();
  Candidates candidates;
  for (const std::string &file : settings.files)
    candidates.push_back(std::make_unique<Candidate>(file, settings));
  measure(candidates, settings);
  for (auto &candidate : candidates)
    if (kernels)
      profileKernels(*candidate, limits);
  Json all = reportOf(candidates, limits, kernels, settings);
  if (!settings.trace.empty()) {
    Candidate &one = *candidates[0];
    std::string spans = one.named([&] { return one.session.trace(one.inputs, kTracedRuns); });
    writeText(settings.trace, traceText(parseJson(spans, one.file), one.file));
  }
  if (!settings.html.empty())
    writePage(all, candidates, settings);
  if (settings.json)
    printJson(all.size() == 1 ? all[0] : all);
  else
    print(all, settings);
  return kSuccess;
}

} // namespace

void addBench(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("bench", "Measure the time of a run");
  command
      ->add_option("FILE", settings->files,
                   "Models (compiled first) or modules; several are run in turns and compared")
      ->required();
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
                   "Write a page with the roofline plot of the kernels, or that compares several "
                   "files; it needs no network")
      ->type_name("FILE");
  command->add_flag("--json", settings->json, "As JSON; times in seconds");
  settings->inputs.addTo(*command);
  addCompilation(*command, settings->compile, false);
  command->footer("Examples:\n"
                  "  tensmith bench resnet50.onnx --threads 1\n"
                  "  tensmith bench before.so after.so --html comparison.html\n"
                  "  tensmith bench bert.so --input ids=1x128xi64=range --kernels\n"
                  "  tensmith bench model.so --html roofline.html --trace trace.json");
  command->callback([settings, &chosen] { chosen = [settings] { return bench(*settings); }; });
}

} // namespace tensmith::cli
