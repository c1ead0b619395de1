// Dynamic scaling of the loss, for gradients that go through 16-bit floats of few exponents.
//
// The gradients are of the loss times a scale, a power of two, and divided by it before anything
// else sees them. Where one of them isn't finite, the step changes nothing but the scale, which is
// halved; after so many good steps in a row it is doubled (Micikevicius et al., "Mixed precision
// training", ICLR 2018, section 3.2). The scale and the count of good steps are states, so that a
// run goes on from a checkpoint as if it had not been ended.
#pragma once

#include "compiler/training/StepFunction.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

class LossScale {
public:
  /// Adds the states "loss_scale" and "loss_scale_steps".
  static Result<LossScale> add(StepFunction &step);

  mlir::Value scaled(mlir::Value loss, const graph::GraphCode &code) const;
  /// The gradients become those of the loss itself; notes whether all are finite.
  void unscale(std::vector<mlir::Value> &gradients, const graph::GraphCode &code);
  /// The same where others have looked at them: `factor` is not finite where one of them isn't.
  void judge(mlir::Value factor, const graph::GraphCode &code);
  /// Of a step with a gradient that isn't finite, all states but these keep their values.
  void guard(StepFunction &step, const graph::GraphCode &code) const;

private:
  mlir::BlockArgument scale_, good_;
  mlir::Value isFinite_;
};

} // namespace tensmith::training
