// The rounds of one training: derivatives, trees, outputs, validation.
#pragma once

#include "trees/CompiledLoss.h"
#include "trees/Dropping.h"
#include "trees/Training.h"
#include "trees/TreeGrower.h"

#include "base/Hash.h"

#include <memory>
#include <vector>

namespace tensmith::trees {

class Booster {
public:
  Booster(const TrainingInput &input, const Parameters &parameters);

  Result<Forest> train();

private:
  struct ValidationRows {
    const Validation *set;
    std::vector<float> weights, outputs;
  };

  Status prepare();
  Status checkTogether() const;
  Status start();
  Status joinFeatures();
  Status joinLevels(int64_t feature);
  Status round(int64_t number);
  Status openLoss();
  bool isCompiled() const;
  bool hasOwnLoss() const;
  Status derive();
  Status deriveOwn();
  Status deriveByCaller();
  Result<double> meanLoss(const ValidationRows &rows);
  Status growChannel(int64_t number, int64_t channel);
  void setQuantiles(GrownTree &grown) const;
  void addGrown(const GrownTree &grown, int64_t channel, float scale);
  Result<bool> validate(int64_t number, double seconds);
  Result<bool> agreed(bool goesOn) const;
  Status resume();
  Status saveState() const;
  void takeRound(const Round &round);
  bool isStoppedEarly() const;
  void goBackToBest();
  Rows rowsOf(const Matrix &matrix, const std::vector<float> &weights,
              const std::vector<float> &outputs) const;
  Status startOutputs(const Matrix &matrix, std::vector<float> &outputs);

  const TrainingInput &input_;
  Parameters parameters_;
  const Matrix &matrix_;
  const Objective *objective_ = nullptr;
  Threads threads_;
  std::vector<float> weights_; // by row
  int64_t channels_ = 1, firstRow_ = 0, firstRound_ = 0;
  Forest forest_;
  std::unique_ptr<CompiledLoss> loss_;
  std::vector<float> outputs_;
  std::vector<Gradient> gradients_, ofChannel_;
  std::vector<ValidationRows> validation_;
  std::vector<NamedMetric> metrics_;
  std::unique_ptr<struct FinderWithCuts> finder_;
  std::unique_ptr<TreeGrower> grower_;
  Dropping dropping_;
  double bestValue_ = 0;
  int64_t bestRound_ = -1;
  Hash128 training_; // of checkpoints
  std::vector<Round> rounds_;
  bool isEnded_ = false; // by a watch, in the rounds that are resumed
};

/// By row, though groups may have been given them.
std::vector<float> weightsByRow(const Matrix &matrix);

} // namespace tensmith::trees
