// Whether each pass leaves the meaning of the graph as it was: the graph is evaluated by the
// reference on drawn inputs before the first pass and after each, and the results are compared.
//
// This finds the pass that is at fault, where a comparison of outputs finds only that one is. Code
// that is made of kernels afterwards has no such evaluation; `tensmith compare --reference` runs
// it. Alive's translation validation proves what is only tried here (N. Lopes et al., PLDI 2015).
#pragma once

#include "compiler/graph/Evaluate.h"

namespace tensmith::pipeline {

class PassVerification {
public:
  /// Draws inputs on which the function can be evaluated, and evaluates it. Errors: Unsupported
  /// where none were found.
  Status begin(mlir::func::FuncOp function);
  /// Errors: Internal, naming the pass, the result and its first element that is another.
  Status check(mlir::func::FuncOp function, const std::string &pass) const;

private:
  std::vector<graph::RuntimeValue> inputs_, expected_;
};

} // namespace tensmith::pipeline
