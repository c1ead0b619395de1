// One kernel: a search, trials, and the point that has proved the fastest so far.
//
// The incumbent, at first the estimates' point, is run beside every batch of candidates, and times
// count relative to its own of the same turn, so that a drift of the machine cancels. Turns go to
// the candidates that seem fast: after one the slower half of a batch gets no more, and so on; in
// the next batch after two, then after all, since what one turn says may be wrong (Li et al.,
// Hyperband, 2018, whose resource is here the number of turns). One that looks faster than the
// incumbent takes its place only by a challenge (Challenge.h), and then stands in the database as
// the kernel's winner: whatever happens to this process afterwards.
//
// The search begins near the estimates' point and at what other kernels' history suggests
// (Precedents.h).
#pragma once

#include "tune/Bench.h"
#include "tune/Challenge.h"
#include "tune/Precedents.h"
#include "tune/search/Search.h"

namespace tensmith::tune {

struct TuningSettings {
  std::string search = "annealing";
  Loss loss = Loss::Rank;
  Acquisition acquisition = Acquisition::Mean;
  uint64_t seed = 1;
  size_t batch = 8;
  int turns = 3;          // of a candidate, at most
  std::string compiler;   // version, for the database
  bool precedents = true; // whether other kernels' history is looked at
};

class KernelTuner {
public:
  /// Takes up what the database has of the kernel, of this compiler's. Both must outlive it.
  KernelTuner(const TunableKernel &kernel, Bench &bench, Database &database,
              const TuningSettings &settings);

  /// Measures a batch, at most so many; how many there were. 0: the space is exhausted, or the
  /// kernel can't be run.
  size_t step(size_t most);

  const TunableKernel &kernel() const { return kernel_; }
  /// In this process.
  int64_t trials() const { return trials_; }
  int64_t failures() const { return failures_; }
  /// Medians; 0 before the first step.
  double before() const { return before_; }
  double best() const { return best_; }
  const std::string &choices() const { return incumbentChoices_; }
  /// The first step's failure, where the kernel can't be run at all.
  const std::string &broken() const { return broken_; }
  /// The best time after each trial.
  const std::vector<double> &curve() const { return curve_; }
  /// What of the model's decisions each choice has, by name; empty without a model.
  std::vector<std::pair<std::string, double>> importances() const;
  struct Predicted {
    double score, seconds;
  };
  /// Of the last model: what it predicts of what was measured.
  std::vector<Predicted> predictions() const;

private:
  bool start();
  void resume();
  void observeEstimate();
  void suggest(size_t count);
  bool orders(const History &history) const;
  struct Entry;
  void measure(std::vector<Entry> &entries);
  void challengeBy(Entry &entry);
  void record(const Entry &entry);

  const TunableKernel &kernel_;
  Bench &bench_;
  Database &database_;
  TuningSettings settings_;
  std::shared_ptr<CostModel> model_;
  std::unique_ptr<Search> search_;
  std::vector<Observation> observed_;
  std::vector<Features> features_; // of what was observed; empty where nobody knows
  bool isNew_ = false;             // nothing of it was known, and no batch was made
  std::optional<History> history_; // of other kernels, for as long as it is asked
  Random random_;
  std::optional<size_t> estimated_, incumbent_; // candidates
  std::string incumbentChoices_, broken_;
  double before_ = 0, best_ = 0;
  int64_t trials_ = 0, failures_ = 0, batches_ = 0;
  std::vector<double> curve_;
};

} // namespace tensmith::tune
