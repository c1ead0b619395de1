// A model's kernels by the compiler's library: what tuning measures in earnest.
//
// Candidates run by commands, of which there may be several (`ssh board tensmith-run`, an
// emulator), each in turn. One that fails where a candidate is known to run is dropped, with a
// message, and the others go on: what it was measuring is measured elsewhere.
#pragma once

#include "client/Compiler.h"
#include "tune/Bench.h"
#include "tune/KernelTuner.h"

#include <deque>

struct ts_tuning;

namespace tensmith::tune {

struct RunnerSettings {
  /// Each a program with its first arguments, in words; none: this machine.
  std::vector<std::string> commands;
  double limitSeconds = 30, repeatSeconds = 0.03;
  int threads = 0; // 0: as many as CPUs
};

class ModelSession : public Bench {
public:
  /// `training`: of a step of training; null: the model as it is. `say` is told of runners that are
  /// dropped.
  ModelSession(const std::string &model, const client::CompileSettings &settings,
               const client::TrainingRequest *training, const RunnerSettings &runners,
               std::function<void(const std::string &)> say);
  ~ModelSession() override;

  const std::string &machine() const { return machine_; }
  std::vector<TunableKernel> kernels() const;
  /// Of operators, by rewrites (TunableKernel's `kind`, `flops` and `bytes` are empty).
  std::vector<TunableKernel> decisions() const;
  /// What a decision may tell as its error.
  double mostError() const { return description_.value("most_error", 0.0); }
  /// As the compiler tells of them (ts_tuning_describe); none: there is no such kernel.
  client::Json choicesOf(const std::string &key) const;

  std::optional<size_t> build(const std::string &key, const std::string &choices,
                              std::string &why) override;
  void drop(size_t candidate) override;
  RunOutcome run(size_t candidate) override;
  Features features(const std::string &key, const std::string &choices) override;
  /// Its tree of loops, for `treeGruModel`; empty where it has none.
  Features loops(const std::string &key, const std::string &choices);

  /// Any module, on inputs that are made up, for so long at least.
  RunOutcome runModule(const std::string &path, double seconds);

private:
  struct Runner {
    std::vector<std::string> words;
    std::optional<size_t> proof; // a candidate that ran there
  };

  RunOutcome runBy(const Runner &runner, size_t candidate);
  bool isAlive(const Runner &runner);

  ts_tuning *handle_;
  RunnerSettings settings_;
  std::function<void(const std::string &)> say_;
  std::deque<Runner> runners_; // the first is the next
  std::string machine_;
  client::Json description_;
};

/// A command line in words, as a shell would cut it by spaces and quotes, and no more than that.
/// Throws Failure where a quote has no end or there is no word.
std::vector<std::string> wordsOf(const std::string &command);

/// [{"name", "meaning"}] of the features of loop programs, in their order.
client::Json featureNames();

} // namespace tensmith::tune
