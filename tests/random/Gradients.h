// Whether the derivatives of a graph are those that its values say, those of results of integers
// included.
//
// A graph is brought to f64 and evaluated by the reference at points a little apart along a drawn
// direction: the slope is what the gradient and the tangent of the same graph must give. Where two
// distances give two slopes there is a kink between, or rounding, and nothing is said.
#pragma once

#include "tests/random/Evaluation.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::random_graphs {

struct GradientReport {
  int compared = 0;       // slopes
  int smooth = 0;         // of them, those that said something
  std::string error;      // of an operator without derivative, or of what could not be built
  std::string difference; // of the first slope that is another; empty where all agree
};

struct GradientOptions {
  bool second = false;  // also the derivative of the gradient
  bool compile = false; // also the gradient's compiled code, against the reference
};

/// `main` of the module, which is left as it is.
GradientReport checkGradients(mlir::ModuleOp module, uint64_t seed, const GradientOptions &options);

} // namespace tensmith::random_graphs
