// Samples as the batches that a model takes, and what its outputs are worth.
#pragma once

#include "quantize/Quantiser.h"

#include <set>

namespace tensmith::quantize {

class Samples {
public:
  /// InvalidArgument where an input has no array, or arrays don't fit the model.
  static Result<Samples> of(const Feed &arrays, const std::vector<Port> &inputs, int64_t batch);

  int64_t batches() const { return batches_; }
  /// Views of the arrays.
  Feed batch(int64_t number) const;
  /// Right answers of a batch; empty where there are none.
  std::vector<int64_t> labels(int64_t number) const;
  /// Samples that fill no whole batch of a model that takes no other.
  int64_t left() const { return left_; }

private:
  HostTensor part(const HostTensor &array, int64_t number) const;
  Feed arrays_;
  HostTensor labels_;
  bool hasLabels_ = false;
  int64_t count_ = 0, size_ = 1, batches_ = 0, left_ = 0;
};

/// How far outputs are from those of the model of floats, added up over batches.
class Quality {
public:
  explicit Quality(std::vector<std::string> outputs) : outputs_(std::move(outputs)) {}

  void add(const Feed &right, const Feed &found, const std::vector<int64_t> &labels);

  struct Output {
    double signal = 0, noise = 0;   ///< sums of squares
    double answers = 0, agreed = 0; ///< rows, and how many have the largest element in one place
    double labelled = 0, rightBefore = 0, rightAfter = 0;
  };
  /// Of outputs of floats, by name.
  const std::map<std::string, Output> &byOutput() const { return found_; }
  /// Of all outputs, the mean square of errors against that of elements.
  double relativeError() const;
  /// Percent that are lost: of right answers where labels are known; else of answers that are the
  /// same; else, where no output has answers, of the square of the outputs.
  double lost() const;

private:
  std::vector<std::string> outputs_;
  std::map<std::string, Output> found_;
};

} // namespace tensmith::quantize
