// From samples to a step's inputs: which column feeds which input, and what is done to its numbers
// on the way.
//
//   element = (value * scale - mean) / deviation
//
// of inputs of floats that are no target; others are converted as they are. Pictures become
// channels first where the input has it so. Augmentation comes before, on the raw values, and draws
// by sample and epoch alone.
#pragma once

#include "train/Dataset.h"
#include "train/Order.h"

#include <tensmith/tensmith.hpp>

namespace tensmith::train {

/// An input of the step that samples feed, as it is compiled: the batch first.
struct FeedPort {
  std::string name;
  DataType type;
  Shape shape; // of a sample
};

struct Normalisation {
  std::optional<double> scale;
  std::vector<double> mean, deviation;
};

struct Augmentation {
  int64_t crop = 0;
  bool flip = false;
  uint64_t seed = 0;
  bool any() const { return crop > 0 || flip; }
};

/// Makes one input's elements of one column's, or of several joined.
class Feed {
public:
  Feed(FeedPort port, std::vector<std::shared_ptr<const Column>> columns, bool isTarget,
       const Normalisation &normalisation, const std::string &where);

  const FeedPort &port() const { return port_; }
  /// Of a target that counts classes: how many there are, so that one beyond is refused (negative
  /// ones don't count in the loss); 0: any.
  void limitClasses(int64_t classes) { classes_ = classes; }
  void augment(const Augmentation &augmentation);
  /// Each of `rows` as a sample; `epoch` is below 0 where nothing is augmented.
  void fill(std::span<const int64_t> rows, int64_t epoch, std::byte *into) const;
  /// Says of the first of the rows that has a value which is not finite, or not in the input's
  /// type, which sample of what file that is; empty where all are.
  std::string firstNotFinite(std::span<const int64_t> rows) const;

private:
  struct Window;
  void fillRow(int64_t row, int64_t epoch, std::span<std::byte> raw, std::byte *into) const;
  void convert(std::span<const std::byte> raw, const Window &window, std::byte *into) const;
  Window windowOf(int64_t row, int64_t epoch) const;
  double table(double value, int64_t channel) const;
  void checkClasses(std::span<const int64_t> rows, const std::byte *elements) const;
  void checkWhole(std::span<const int64_t> rows) const;

  FeedPort port_;
  std::vector<std::shared_ptr<const Column>> columns_;
  std::string where_;
  bool normalised_;
  double scale_ = 1;
  std::vector<double> mean_, deviation_; // by channel
  int64_t channels_ = 1, height_ = 1, width_ = 1, classes_ = 0;
  Augmentation augmentation_;
  std::vector<float> bytes_; // of each channel, each byte's value
};

/// The step's inputs and the columns that feed them: by name, or the only one of each. Throws
/// Failure where they don't go together. `target` is the port that the loss compares with; empty:
/// none.
std::vector<Feed> bindFeeds(const Dataset &data, const std::vector<FeedPort> &ports,
                            const std::string &target, const std::string &targetColumn,
                            const Normalisation &normalisation);

/// The column that is the target: the one that is asked for, or that is called as targets are, or
/// that the files say is it, or the last of several; -1: none. Throws Failure where there is none
/// of the name `asked`.
int targetOf(const Dataset &data, const std::string &asked);

/// A batch: a tensor for each port.
struct Batch {
  std::vector<Tensor> tensors;
  int64_t rows = 0; // samples; the rest of a last batch repeats them
};
/// Tensors of the ports' types for so many samples.
Batch makeBatch(const std::vector<Feed> &feeds, int64_t size);
void fillBatch(const std::vector<Feed> &feeds, std::span<const int64_t> rows, int64_t epoch,
               Batch &batch);

} // namespace tensmith::train
