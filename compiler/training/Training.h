// A forward model to one step of its training: loss, gradients, update, as one graph.
//
// before: main(x) -> (logits), weights constants
// after:  main(x, target, w, velocity.w, step) -> (loss, correct, w', velocity.w', step + 1)
//
// Weights become states (graph/States.h): the update of each is an output that takes over its
// input's memory. What the step is made of are graph operators like any, so that updates are fused
// with the gradients that they take, and memory is planned over all of it. Optimisers and schedules
// are programs of the language (train/optimisers, train/schedules, or the caller's own).
#pragma once

#include "base/Status.h"
#include "compiler/autodiff/Differentiate.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tensmith::training {

struct Options {
  /// "cross_entropy" or "mean_squared_error", of an output and a further input "target", or the
  /// name of an output of one element.
  std::string loss = "cross_entropy";
  std::string of;                    // the output that a built-in loss is taken of; the first
  std::string optimiser = "sgd";     // one of train/optimisers, or the path of a program (.tsm)
  std::string schedule = "constant"; // likewise, of train/schedules
  /// Values of the constants at the top of both programs.
  std::vector<std::pair<std::string, double>> settings;
  double clipNorm = 0;               // of all gradients together, at most; 0: none
  std::optional<double> weightDecay; // else the optimiser's own, if it has one; see applyDecay
  double emaDecay = 0; // of averages of the parameters, slots "ema.<parameter>"; 0: none
  /// Names of initialisers, "*" for any characters; all of floats that have dimensions where empty.
  std::vector<std::string> trainable;
  std::vector<std::string> outputs; // of the model, that the step gives too
  bool scalesLoss = false;          // see LossScale.h
  /// The step of one of several processes, up to where their gradients are summed: main(x, target,
  /// w, process, share) -> (loss, correct, gradient.w), in the order in which the gradients are
  /// computed. The loss is `share` times what it is otherwise; dropout draws what it would draw for
  /// the batch of all, of which `process` has the part with its number; statistics of the batch are
  /// of the batch of all. With scalesLoss the gradients are of the scaled loss, and the scale's
  /// states are read alone. makeUpdate does the rest. An optimiser that is told of layers
  /// makes it a whole step all the same, which sums gradients itself.
  bool gradientsAlone = false;
  autodiff::Checkpointing checkpointing = autodiff::Checkpointing::None; // of recursion
};

inline constexpr char kProcess[] = "process", kShare[] = "share"; // states that are read alone

/// The kinds of states, as in plan::StateKind.
enum class StateKind : int64_t { Parameter, Slot, Step };

/// Makes `main` a step. The module was read for training: its initialisers are marked
/// (graph::kInitialiser).
Status makeTrainingStep(mlir::ModuleOp module, const Options &options);

} // namespace tensmith::training
