// The meaning of a nest, point by point in the textual order: the oracle of the tests. It knows
// nothing of isl, trees or code.
#pragma once

#include "compiler/nest/Nest.h"

#include <functional>

namespace tensmith::nest::test {

/// A tensor's elements as doubles, whatever its type.
struct Values {
  std::vector<int64_t> extents;
  std::vector<double> elements;
};
using Environment = std::map<std::string, Values>;

int64_t evaluate(const Affine &affine, const std::map<std::string, int64_t> &variables);
/// Tensors with small whole numbers in the inputs, zeros elsewhere. Of index tensors ("index")
/// numbers below `indexBound`.
Environment drawTensors(const Nest &nest, const std::map<std::string, int64_t> &parameters,
                        uint64_t seed, int64_t indexBound);
/// What one point touches: elements, whose offsets count all as they lie row-major.
struct Touched {
  std::string tensor;
  int64_t element;
  bool isWrite;
};
/// Of the statement at these values of its iterators, of affine indices alone. Reductions read what
/// they write.
std::vector<Touched> touchedAt(const Nest &nest, const Statement &statement,
                               const std::vector<int64_t> &point,
                               const std::map<std::string, int64_t> &parameters);

/// Runs all points.
void run(const Nest &nest, const std::map<std::string, int64_t> &parameters, Environment &tensors);

} // namespace tensmith::nest::test
