// All kernels of a model, within a box of time or trials: `tensmith tune`.
//
// First operators are tuned, by the model's time: what rewrites decide for each (DecisionBench.h).
// Then rounds go to kernels by the task scheduler (TaskScheduler.h). What is found stands in the
// database as soon as it is found. At the end the model is compiled without the winners and with
// them, and both are run in turns: what the report promises is that. Where the whole is not faster
// though its kernels were, this run's winners are taken back.
#pragma once

#include "tune/ModelSession.h"
#include "tune/TaskScheduler.h"

#include <atomic>

namespace tensmith::tune {

struct TuneRequest {
  std::string model, database;
  client::CompileSettings compile;
  const client::TrainingRequest *training = nullptr; // of a step of training
  RunnerSettings runners;
  TuningSettings tuning;
  double seconds = 0; // 0: no box of time
  int64_t trials = 0; // 0: any number
  bool measuresModel = true;
  bool tunesDecisions = true; // what rewrites decide, before kernels' points
};

struct TuneProgress {
  double elapsed = 0;
  int64_t trials = 0;
  double before = 0, best = 0; // of the kernels of a run, seconds
  double gain = 0;             // expected of another trial, seconds
  std::string kernel;
};

struct TuneCallbacks {
  std::function<void(const TuneProgress &)> progress;
  std::function<void(const std::string &)> say;
  const std::atomic<bool> *stop = nullptr; // looked at between batches
};

/// The report: {"model", "machine", "database", "trials", "failures", "seconds", "before_ms",
/// "after_ms" (of the model; null: not measured), "confidence" (null where nothing won), "kernels":
/// [{"key", "kernel", "nodes", "template", "uses", "points", "trials", "failures", "before_us",
/// "after_us", "choices", "estimated", "untunable", "curve_us", "importances", "predicted"}],
/// "decisions": the same of operators, whose times are the model's}.
client::Json tuneModel(const TuneRequest &request, const TuneCallbacks &callbacks);

} // namespace tensmith::tune
