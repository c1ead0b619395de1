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
/// Of small numbers, with a sum of others.
Nest productOf(DataType left, DataType right, DataType sum);
/// Of bytes, with channels innermost, as seven plain loops.
Nest convolutionOf(DataType image, DataType filter);
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
Nest triangularProduct();

/// The first ten, each at a few sizes.
std::vector<Program> programs();
/// All of the above, and what only texts show.
std::vector<Nest> namedPrograms();

} // namespace tensmith::nest::test
