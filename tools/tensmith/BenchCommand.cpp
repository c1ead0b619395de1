// tensmith bench: how long a run takes, and where the time goes.
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Compiler.h"
#include "tools/tensmith/Inputs.h"
#include "tools/tensmith/Progress.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <map>
#include <numeric>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string file;
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

/// The profile's instructions, those of one label and kind added up, per run, the slowest first.
Json kernelsOf(const Json &profile, int runs) {
  std::map<std::string, Json> byLabel;
  for (const Json &entry : profile) {
    Json &sum = byLabel[entry["kind"].dump() + entry["label"].dump()];
    if (sum.is_null())
      sum = {{"label", entry["label"]}, {"kind", entry["kind"]}, {"calls", 0.0},
             {"seconds", 0.0},          {"flops", 0.0},          {"bytes", 0.0}};
    auto add = [&](const char *key, const Json &value, double scale) {
      sum[key] = value.is_number() && sum[key].is_number()
                     ? Json(sum[key].get<double>() + value.get<double>() * scale)
                     : Json();
    };
    add("calls", entry["count"], 1.0 / runs);
    add("seconds", entry["nanoseconds"], 1e-9 / runs);
    add("flops", entry["flops"], 1.0 / runs);
    add("bytes", entry["bytes"], 1.0 / runs);
  }
  Json kernels = Json::array();
  for (auto &[label, sum] : byLabel)
    kernels.push_back(std::move(sum));
  std::sort(kernels.begin(), kernels.end(), [](const Json &a, const Json &b) {
    return std::pair(-a["seconds"].get<double>(), a["label"].dump()) <
           std::pair(-b["seconds"].get<double>(), b["label"].dump());
  });
  return kernels;
}

std::string rate(const Json &kernel, const char *key) {
  double seconds = kernel["seconds"].get<double>();
  if (!kernel[key].is_number() || kernel[key].get<double>() == 0 || seconds == 0)
    return "-";
  return fmt::format("{:.1f}", kernel[key].get<double>() / seconds * 1e-9);
}

void printKernels(const Json &kernels) {
  double total = 0;
  for (const Json &kernel : kernels)
    total += kernel["seconds"].get<double>();
  Table table({"time", "share", "calls", "Gflop/s", "GB/s", "kind", "label"});
  for (const Json &kernel : kernels) {
    double seconds = kernel["seconds"].get<double>();
    table.add({timeText(seconds), fmt::format("{:.1f}%", total > 0 ? 100 * seconds / total : 0),
               fmt::format("{:g}", kernel["calls"].get<double>()), rate(kernel, "flops"),
               rate(kernel, "bytes"), cellText(kernel["kind"]), cellText(kernel["label"])});
  }
  std::cout << '\n' << table.text();
}

int bench(const Settings &settings) {
  Module module = loadOrCompile(settings.file, settings.compile);
  auto inputs =
      makeInputs(module.inputs(), settings.inputs, settings.compile.shapes, settings.file);
  Session session(module, {.threads = settings.threads});
  std::vector<double> times;
  Json kernels;
  try {
    times = measure(session, inputs, settings);
    if (settings.kernels) {
      int runs = int(times.size());
      Progress progress("profiling " + settings.file);
      kernels = kernelsOf(parseJson(session.profile(inputs, size_t(runs)), settings.file), runs);
    }
  } catch (const Error &error) {
    fail(settings.file, error.what());
  }
  double mean = std::accumulate(times.begin(), times.end(), 0.0) / double(times.size());
  if (settings.json) {
    Json all = {{"file", settings.file},
                {"threads", session.threads()},
                {"runs", times.size()},
                {"warm_up", settings.warmUp},
                {"median", quantile(times, 0.5)},
                {"min", times.front()},
                {"mean", mean},
                {"p90", quantile(times, 0.9)},
                {"max", times.back()}};
    if (settings.kernels)
      all["kernels"] = kernels;
    printJson(all);
    return kSuccess;
  }
  std::cout << fmt::format("{}: median {}, min {}, mean {}, 90% within {} ({} runs, {} {})\n",
                           settings.file, timeText(quantile(times, 0.5)), timeText(times.front()),
                           timeText(mean), timeText(quantile(times, 0.9)), times.size(),
                           session.threads(), session.threads() == 1 ? "thread" : "threads");
  if (settings.kernels)
    printKernels(kernels);
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
                    "Also the time of each kernel (in runs of their own: measuring costs time)");
  command->add_flag("--json", settings->json, "As JSON; times in seconds");
  settings->inputs.addTo(*command);
  settings->compile.addTo(*command, false);
  command->footer("Examples:\n"
                  "  tensmith bench resnet50.onnx --threads 1\n"
                  "  tensmith bench bert.so --input ids=1x128xi64=range --kernels");
  command->callback([settings, &chosen] { chosen = [settings] { return bench(*settings); }; });
}

} // namespace tensmith::cli
