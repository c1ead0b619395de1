// What a policy's rounding does to a whole model, found out on inputs that are given or drawn.
//
// A layer's own error (rewrite/RoundingError.h) says nothing of what layers do to one another, and
// supposes that inputs are N(0, 1). Here the graph, as it is before anything is rounded otherwise,
// is compiled a second time with all of its f32 as f64, and run. Of that come the moments of each
// layer's input, which the layer is then tried on, and the outputs that those of the finished
// module are held against. Codes stay codes there. Where a graph has no such form in doubles (bits
// of floats, trees), it is the policy `exact` in f32 that both are taken from.
#pragma once

#include "compiler/graph/Evaluate.h"
#include "compiler/rewrite/RoundingError.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>

namespace tensmith::pipeline {

/// Values of inputs by their names; none: all are drawn.
struct CalibrationInputs {
  std::string name = "calibration"; // in messages
  std::map<std::string, HostTensor> given;
};

/// The outputs of a module with these bytes.
using RunModule = std::function<Result<std::vector<graph::RuntimeValue>>(
    const std::string &bytes, std::span<const graph::RuntimeValue> inputs)>;

/// One value for each of the function's inputs. What is drawn is N(0, 1); integers that rows of
/// tables are taken by are drawn among those, and integers that become floats or conditions are 0
/// or
/// 1. InvalidArgument where an input is not given, is of another type or size, or can't be drawn.
Result<std::vector<graph::RuntimeValue>> calibrationValues(mlir::func::FuncOp function,
                                                           const CalibrationInputs &inputs);

/// All f32 of the module becomes f64. False, with the module in no state to be used, where that has
/// another meaning or isn't valid.
bool widenFloats(mlir::ModuleOp module);

/// Whether the module has codes that products may be computed in (rewrite/IntegerProducts.cpp),
/// which hides the numbers that they stand for: then it is marked before that.
bool hasCodes(mlir::ModuleOp module);

class Calibration {
public:
  Calibration(const CalibrationInputs &inputs, RunModule run)
      : inputs_(inputs), run_(std::move(run)) {}

  /// Marks the layers of the function with their inputs' moments; evaluates it, the first time.
  /// Then the function must be the same each time. `compile`: to a module's bytes, by the policy
  /// `exact`.
  Status mark(mlir::func::FuncOp function,
              const std::function<Result<std::string>(mlir::ModuleOp)> &compile);
  static void unmark(mlir::ModuleOp module);

  struct Found {
    std::string output;
    double error;  // the largest difference, against the largest element
    bool hasScale; // some element is finite, and not zero
  };
  /// Of each output of floats of the finished module. Errors: what running it gives.
  Result<std::vector<Found>> check(const std::string &bytes) const;

  bool inDoubles() const { return inDoubles_; }
  bool isDrawn() const { return inputs_.given.empty(); }

private:
  Status evaluate(mlir::func::FuncOp function,
                  const std::function<Result<std::string>(mlir::ModuleOp)> &compile);
  Status evaluate(mlir::func::FuncOp function, bool inDoubles,
                  const std::function<Result<std::string>(mlir::ModuleOp)> &compile);

  const CalibrationInputs &inputs_;
  RunModule run_;
  bool inDoubles_ = false, evaluated_ = false;
  std::vector<graph::RuntimeValue> values_, expected_;
  std::vector<std::string> outputs_; // names
  std::vector<rewrite::InputMoments> moments_;
};

} // namespace tensmith::pipeline
