// Instructions that tests declare: a linalg.generic says what they compute, and their code computes
// it element by element.
#pragma once

#include "compiler/nest/TileIntrinsic.h"

namespace tensmith::nest::test {

/// sums[...] += left[...] * right[...], the dimensions of each as they lie in memory.
struct Declaration {
  std::string name = "unit";
  std::vector<int64_t> sizes; // of its iterators
  std::vector<unsigned> left, right, sums;
  DataType leftType = DataType::F32, rightType = DataType::F32, sumType = DataType::F32;
  bool leftHasPitch = false, rightHasPitch = false;
  Reduction reduction = Reduction::Add;
};

Result<TileIntrinsic> declared(const Declaration &declaration);

} // namespace tensmith::nest::test
