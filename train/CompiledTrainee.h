// What a run trains, as the compiler makes it: a module of the step, whose states are updated in
// place, and one of the model itself, whose parameters are inputs.
#pragma once

#include "train/Run.h"
#include "train/StepTrace.h"

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

/// Views of tensors, as states have them.
HostTensor view(const Tensor &tensor);
/// Copies tensors into those of the same name, type and shape; throws Failure where one is missing
/// in `from`, or left over.
void takeOver(const std::vector<NamedTensor> &from, const std::vector<NamedTensor> &into,
              const std::string &where);

class CompiledTrainee : public Trainee {
public:
  /// `forward` takes what the model takes and the parameters, all by name.
  CompiledTrainee(const Module &step, const Module &forward, const Settings &settings);

  /// The loss of the model's own of samples that don't fill a batch; what `forward` is, of any
  /// number of samples. Without one they don't count.
  void evaluateRestsBy(const Module &rest);

  Score step(const Batch &batch) override;
  Score evaluate(const Batch &batch) override;
  std::vector<NamedTensor> states() override;
  void restore(const std::vector<NamedTensor> &states, const std::string &where) override;

  /// All states, which stay when the trainee goes. As of `states`, of several processes the first
  /// has them all.
  virtual std::map<std::string, Tensor> tensors();
  /// The model's own weights as trained: averages, where those are kept.
  virtual std::map<std::string, Tensor> parameters();
  /// How many classes cross entropy tells apart; 0 of other losses.
  int64_t classes() const { return classes_; }
  int64_t parameterCount() const; // numbers in them

  /// One step is written there, as a Chrome trace, once the first ones are over.
  void traceTo(const std::string &file) { traceFile_ = file; }

protected:
  struct State {
    std::string name;
    ts_state_kind kind;
    size_t input, output; // the latter TS_NO_OUTPUT where it is only read
    Tensor tensor;
  };
  void feed(const Batch &batch);
  /// Targets that count; -1 where the loss counts none.
  int64_t counted(const Batch &batch) const;
  State &stateOf(const std::string &name);
  /// The state's tensor is this one from now on, with the same contents.
  void replace(State &state, Tensor tensor);

  Session session_;
  std::vector<State> states_;
  std::vector<Tensor> inputs_, outputs_; // of the step, states among them
  bool averages_;                        // are kept of the parameters
  size_t lossAt_ = 0;
  int correctAt_ = -1;
  int target_ = -1; // of what batches feed

  /// A run of a module of the step, which is recorded in the step that is traced.
  void runTraced(const Session &session, const char *what, const std::vector<Tensor> &inputs,
                 std::vector<Tensor> &outputs, std::function<void(size_t)> written);
  /// The step is over; `sent`: what went on between processes.
  void finishTrace(const std::vector<Processes::Span> &sent);

private:
  void placeStates(const Module &step);
  void placeForward(const Module &forward);
  Score crossEntropy(const Tensor &scores, const Tensor &target, int64_t rows) const;
  Score squaredError(const Tensor &values, const Tensor &target, int64_t rows) const;

  std::string model_, loss_;
  Session forward_;
  std::optional<Session> rest_;
  int threads_;
  std::vector<size_t> fed_; // the step's inputs that batches feed
  std::vector<std::string> fedNames_;
  size_t scoresAt_ = 0;
  int64_t classes_ = 0;
  std::vector<Port> forwardInputs_;
  std::string traceFile_;
  int64_t traced_ = 0; // steps made while a trace was wanted
  StepTrace trace_;
};

} // namespace tensmith::train
