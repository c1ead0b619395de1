// A run of training, once its settings are known: what `tensmith train` and Python's `train` share.
#pragma once

#include "client/Compiler.h"
#include "train/Dataset.h"
#include "train/Run.h"

#include <memory>

namespace tensmith::client {

/// Samples that are in memory already, instead of what the settings' paths name.
struct Samples {
  std::optional<train::Dataset> train, test;
};

/// A value of `TrainingHost::stop`: what has been trained so far is the result. Any other but 0 is
/// an interruption, of a run that is to go on later.
inline constexpr int kEnough = -1;

/// Whoever starts a run.
struct TrainingHost {
  /// Makes who watches it; `first`: in the one process of several that says how far it is.
  std::function<std::unique_ptr<train::Watcher>(bool first)> watch;
  const std::atomic<int> &stop; // once not 0, the run ends after the step, with a checkpoint
  bool progress = true;         // of what is compiled, on stderr
  /// Tells of an interruption, in the process that shows the run, before any other ends: whoever
  /// started several ends them all once one has gone with a status that isn't 0. May be empty.
  std::function<void(train::Watcher &, const train::Outcome &)> interrupted = {};
};

struct Trained {
  bool first;                          // of several processes: the one that has written the folder
  std::filesystem::path folder, model; // the latter the trained one, as what it was given as
  train::Outcome outcome;
  std::map<std::string, Tensor> states; // the first's
};

/// Trains to the end, or until it is stopped, as one of several processes where it was started so.
/// The folder then has model.onnx and model.so, unless it was interrupted. Throws Failure.
Trained trainModel(train::Settings settings, Samples samples, const TrainingHost &host);

} // namespace tensmith::client
