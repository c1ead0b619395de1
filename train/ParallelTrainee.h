// A model trained by several processes, each on its part of every batch.
//
// A step is two modules: one computes the gradients of this process's samples, the other updates
// parameters by the sums. Between them stand the other processes. Gradients are written into
// buckets (Buckets.h), each of which is sent as soon as the last of them is there, while the step
// computes the next. What the stages share out (Rajbhandari et al., ZeRO, 2020):
//
//   0  nothing: every process updates everything by sums that all have
//   1  the optimiser's state: a process gets the sum of its own part of each bucket, updates that,
//      and gets the other parts
//   2  gradients too: the bucket's memory is given back, unless it is the only one, all of which is
//      needed in each step
//
// Statistics of the batch, which batch normalisation takes, are means over all processes in the
// middle of the first module (all_reduce_mean of the graph, train/mpi/Operators.cpp); so are the
// running ones, which therefore are the same everywhere.
//
// The scale of the loss that the precision f16 has is moved by the second, and by nothing but
// whether the sums are finite; what the first has moved meanwhile is taken back where they aren't.
//
// An optimiser that is told of layers updates them in the first module, which sums gradients
// itself.
//
// States have the names and shapes that they have in a run of one process, so that a checkpoint is
// the same file for any number of them.
#pragma once

#include "train/Buckets.h"
#include "train/CompiledTrainee.h"
#include "train/FlatMemory.h"
#include "train/Processes.h"

#include <atomic>
#include <optional>

namespace tensmith::train {

/// How a step is cut up, which all processes find out alike.
struct Layout {
  std::vector<Bucketed> parameters; // in the order in which their gradients are computed
  std::vector<size_t> outputs;      // the module's, with their gradients
  std::vector<Bucket> buckets;
  std::vector<Updated> updated;
};
/// Of the module of the gradients; throws Failure where a type can't be summed. `apart`: each
/// parameter has a bucket of its own, as optimisers need that read more of one than an element.
Layout layOut(const Module &gradients, const Settings &settings, int processes, bool apart);

class ParallelTrainee : public CompiledTrainee {
public:
  /// `stop`: not 0 once this process should end; all then end after one step.
  ParallelTrainee(const Module &gradients, const Module &update, const Module &forward,
                  const Settings &settings, Layout layout, Processes &processes,
                  const std::atomic<int> &stop);
  ~ParallelTrainee() override;

  Score step(const Batch &batch) override;
  void settle() override;
  std::vector<NamedTensor> states() override;
  void restore(const std::vector<NamedTensor> &states, const std::string &where) override;
  std::map<std::string, Tensor> tensors() override;
  std::map<std::string, Tensor> parameters() override;

  /// Of the optimiser's state that this process has.
  int64_t slotBytes() const;

private:
  /// A bucket and where it lies.
  struct Sent {
    Bucket bucket;
    FlatMemory parameters, gradients;
    FlatMemory part; // of the sum, where that is all that this process gets
    size_t left = 0; // gradients that are not there yet
    int64_t number = 0;
  };
  /// A slot of a bucket with the parts of all processes.
  struct Whole {
    FlatMemory memory;
    std::string slot;
    const Bucket *bucket;
    State *part; // this process's
  };

  struct ByName {
    std::map<std::string, Tensor> parameters, gradients;
  };

  ByName updated();
  void placeBuckets();
  void placeUpdate(const Module &update);
  std::byte *gradientPart(const Sent &sent) const;
  void written(size_t output);
  void send(Sent &sent);
  bool givesBack() const { return stage_ == 2 && layout_.buckets.size() > 1; }
  double shareOf(int64_t counted, const Batch &batch);
  void runAmongOthers(const Session &session, const char *what, const std::vector<Tensor> &inputs,
                      std::vector<Tensor> &outputs, std::function<void(size_t)> written);
  void waitForSums();
  double normOfSums();
  double factor(double scale);
  std::vector<std::vector<std::byte>> movingStates() const;
  void takeBack(const std::vector<std::vector<std::byte>> &kept);
  void gatherParameters();
  std::vector<Whole> wholeSlots();
  std::vector<NamedTensor> viewsOf(const std::vector<Whole> &slots) const;
  std::vector<NamedTensor> ownStates();

  Layout layout_;
  Processes &processes_;
  const std::atomic<int> &stop_;
  int64_t stage_;
  double clipNorm_;
  std::vector<Sent> sent_;
  std::vector<int> bucketOf_; // by output of the first module; -1: none
  Session update_;
  std::vector<State> updateStates_;
  std::vector<Tensor> updateInputs_, updateOutputs_;
  Tensor scale_;
  bool scalesLoss_ = false;         // with the precision f16
  std::optional<Tensor> lossScale_; // the state, where the second module moves it
  std::vector<Whole> whole_;        // slots, brought together for the last checkpoint or evaluation
};

} // namespace tensmith::train
