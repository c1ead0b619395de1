// A run of training: epochs of steps over batches, with what is measured, kept and said on the way.
//
// What a step does is behind Trainee; here is only the order of things. The invariant: a checkpoint
// holds states and position after whole steps, so that a run that goes on from it takes the same
// steps, on the same batches, as one that never ended.
#pragma once

#include "train/Checkpoints.h"
#include "train/Feed.h"
#include "train/Metrics.h"
#include "train/Processes.h"
#include "train/Settings.h"

#include <atomic>

namespace tensmith::train {

/// Means over a batch; correct only where the loss counts classes.
struct Score {
  double loss = 0;
  std::optional<double> accuracy;
  std::optional<double> counted = {}; // targets that it is a mean over, where those are not all
  bool stopped = false; // of several processes: one has been asked to end, and so do all
};

class Trainee {
public:
  virtual ~Trainee() = default;
  /// One step; the score is that of the parameters before it.
  virtual Score step(const Batch &batch) = 0;
  /// The score of the batch's first `rows` samples by the parameters as they are.
  virtual Score evaluate(const Batch &batch) = 0;
  /// Before what is evaluated, or asked for by its parameters. As the two below, all of several
  /// processes come here.
  virtual void settle() {}
  /// Views of all that changes, good until the next step; of several processes the first has them.
  virtual std::vector<NamedTensor> states() = 0;
  /// Takes them over; throws Failure where they are not this trainee's.
  virtual void restore(const std::vector<NamedTensor> &states, const std::string &where) = 0;
};

/// What a run trains and is judged on.
struct RunData {
  std::vector<Feed> train, evaluation, test; // evaluation: of the training data, as it is
  Split rows;
  int64_t testRows = 0;
};

/// Who watches it.
class Watcher {
public:
  virtual ~Watcher() = default;
  /// What goes on, how much of the whole is done (0 to 1), and figures that change all the time.
  virtual void progress(const std::string &stage, double fraction, const std::string &figures) = 0;
  virtual void say(const std::string &line) = 0;
  virtual void warn(const std::string &line) = 0;
  /// What has just been written to metrics.jsonl.
  virtual void measured(const Metric &) {}
};

struct Outcome {
  bool interrupted = false;
  Position position;
  std::filesystem::path checkpoint; // the last
  std::optional<Metric> validation, test;
  std::vector<Metric> metrics; // all, those of before a run went on among them
};

/// Runs to the end of the epochs, or until `stop`, from `from` or from the beginning. `remembered`
/// goes into each checkpoint's metadata. Throws Failure; the last good checkpoint stands then. Of
/// several `processes` (null: this one alone) each takes its part of every batch, and the first
/// writes what is written.
Outcome runTraining(const Settings &settings, const std::filesystem::path &folder, Trainee &trainee,
                    const RunData &data, const std::optional<Checkpoint> &from,
                    const Metadata &remembered, Watcher &watcher, const std::atomic<int> &stop,
                    Processes *processes = nullptr);

} // namespace tensmith::train
