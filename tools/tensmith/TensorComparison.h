// Whether two tensors agree, and where and by how much they don't.
#pragma once

#include <tensmith/tensmith.hpp>

#include <string>

namespace tensmith::cli {

/// How far apart floats may be: `relative` of the largest absolute value of the second tensor, and
/// `absolute` on top of it. Integers, booleans and strings are to be equal.
struct Tolerance {
  double relative = 1e-4, absolute = 0;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// What came of one tensor.
struct Difference {
  std::string name, reason; // no reason: they agree
  double largest = 0, allowed = 0;
  std::string index;  // of the largest difference: "[0, 3]"; empty: there is none
  std::string source; // where the model computes it, as far as that is known

  bool agrees() const { return reason.empty(); }
};

/// Sequences differ where their first elements that differ do.
Difference compareTensors(const NamedTensor &left, const NamedTensor &right,
                          const Tolerance &tolerance);

} // namespace tensmith::cli
