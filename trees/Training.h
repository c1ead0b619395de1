// Training of a forest: rounds of boosting by second-order gradients, after Chen and Guestrin,
// "XGBoost: A Scalable Tree Boosting System" (KDD 2016).
//
// A round computes gradients at the present outputs, grows a tree for each channel, and adds its
// leaves to the outputs. The forest that comes of it is the same for any number of threads and
// of processes: statistics are rounded so that sums of f64 are exact (Gradients.h), and so have no
// order.
#pragma once

#include "trees/Forest.h"
#include "trees/Matrix.h"
#include "trees/Metrics.h"
#include "trees/Objective.h"
#include "trees/Parameters.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tensmith::trees {

/// Sums over the processes that train together. A process that trains alone needs none.
class Exchange {
public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// In place, over all processes.
  virtual Status sum(std::span<double> values) = 0;
  /// The same of several arrays, of which processes wait once for all.
  virtual Status sumAll(std::span<const std::span<double>> arrays) {
    for (std::span<double> array : arrays)
      if (Status status = sum(array); !status.ok())
        return status;
    return {};
  }
  /// The same, but that of each array, cut into size() equal parts, a process gets its own part
  /// alone, for half of what is sent.
  virtual Status sumParts(std::span<const std::span<double>> arrays) { return sumAll(arrays); }
  /// Each process's values one after the other: `all` is size() times as long as `own`.
  virtual Status gather(std::span<const double> own, std::span<double> all) = 0;
};

struct Validation {
  std::string name; // "valid"
  const Matrix *matrix = nullptr;
};

/// What a round came to.
struct Round {
  int64_t number = 0; // from 0 on, rounds of a forest that is continued included
  struct Value {
    std::string set, metric;
    double value;
  };
  std::vector<Value> metrics; // by validation set, then metric
  double seconds = 0;         // since training began
};
/// Called after each round; false ends training.
using Watch = std::function<bool(const Round &)>;

/// Cuts that the caller has chosen: feature f's are values[begin[f] .. begin[f + 1]), ascending;
/// bin b holds cut b - 1 <= value < cut b, and the last bin what is left.
struct GivenCuts {
  std::vector<int64_t> begin;
  std::vector<float> values;
};

struct TrainingInput {
  const Matrix *matrix = nullptr;
  std::vector<Validation> validation; // early stopping looks at the last
  const Forest *continued = nullptr;
  OwnLoss ownLoss; // instead of the objective's derivatives
  /// The same as a module (CompiledLoss.h); what Parameters::loss names is compiled to one.
  std::span<const std::byte> lossModule;
  Watch watch;
  const GivenCuts *cuts = nullptr;
  /// Rows are split over its processes, whose matrices agree (Agreement.h).
  Exchange *exchange = nullptr;
  std::vector<std::string> classes; // of a target of text, by label
  std::string source;               // where the rows are from; empty: not known
};

/// Errors: a matrix, labels or parameters that don't fit together, in words that say what to do; a
/// loss or an exchange that failed.
Result<Forest> train(const TrainingInput &input, const Parameters &parameters);

/// The same with what is given most often.
inline Result<Forest> train(const Matrix &matrix, const std::vector<Validation> &validation,
                            const Parameters &parameters, const Forest *continued = nullptr,
                            Watch watch = {}) {
  TrainingInput input;
  input.matrix = &matrix;
  input.validation = validation;
  input.continued = continued;
  input.watch = std::move(watch);
  return train(input, parameters);
}

} // namespace tensmith::trees
