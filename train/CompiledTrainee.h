// What a run trains, as the compiler makes it: a module of the step, whose states are updated in
// place, and one of the model itself, whose parameters are inputs.
#pragma once

#include "train/Run.h"

#include <map>

namespace tensmith::train {

/// The step's inputs that samples feed, the batch's dimension left out, in their order; throws
/// Failure where sizes are open.
std::vector<FeedPort> feedPorts(const Module &step, int64_t batch, const std::string &model);

/// Names of the step's states that are the model's own: parameters and running statistics.
std::vector<std::string> parameterNames(const Module &step);

/// The input that a built-in loss adds to the model's.
inline constexpr const char *kTarget = "target";
bool isBuiltIn(const std::string &loss);

class CompiledTrainee : public Trainee {
public:
  /// `forward` takes what the model takes and the parameters, all by name.
  CompiledTrainee(const Module &step, const Module &forward, const Settings &settings);

  Score step(const Batch &batch) override;
  Score evaluate(const Batch &batch) override;
  std::vector<NamedTensor> states() const override;
  void restore(const std::vector<NamedTensor> &states, const std::string &where) override;

  /// The model's own weights as trained: averages, where those are kept.
  std::map<std::string, Tensor> parameters() const;
  /// How many classes cross entropy tells apart; 0 of other losses.
  int64_t classes() const { return classes_; }
  int64_t parameterCount() const; // numbers in them

private:
  struct State {
    std::string name;
    ts_state_kind kind;
    size_t input, output;
    Tensor tensor;
  };
  void placeStates(const Module &step);
  void placeForward(const Module &forward);
  Score scoreOf(const Tensor &loss, const Tensor *correct, const Batch &batch) const;
  Score crossEntropy(const Tensor &scores, const Tensor &target, int64_t rows) const;
  Score squaredError(const Tensor &values, const Tensor &target, int64_t rows) const;

  std::string model_, loss_;
  bool averages_; // are kept of the parameters
  Session session_, forward_;
  std::vector<State> states_;
  std::vector<Tensor> inputs_, outputs_; // of the step, states among them
  std::vector<size_t> fed_;              // the step's inputs that batches feed
  std::vector<std::string> fedNames_;
  int target_ = -1; // of what batches feed
  size_t lossAt_ = 0, scoresAt_ = 0;
  int correctAt_ = -1;
  int64_t classes_ = 0;
  std::vector<Port> forwardInputs_;
};

} // namespace tensmith::train
