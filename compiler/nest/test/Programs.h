// Nests that the tests schedule: one for each pattern of dependences that kernels have.
#pragma once

#include "compiler/nest/Nest.h"

#include <functional>

namespace tensmith::nest::test {

/// A nest, sizes to run it at, and a schedule that suits it.
struct Program {
  Nest nest;
  std::vector<std::vector<int64_t>> sizes;
};

Nest product();
Nest convolution();
Nest depthwise();
Nest pooling();
Nest scan();
Nest stencilInTime();
Nest triangularSolve();
Nest softmax();
Nest argmax();
Nest attention();
Nest lookup();  // gathers
Nest scatter(); // adds into gathered places
Nest blur();    // two stages, the second reads a window of the first
Nest padded();  // guarded reads

/// The first ten, each at a few sizes.
std::vector<Program> programs();

} // namespace tensmith::nest::test
