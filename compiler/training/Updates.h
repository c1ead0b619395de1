// From gradients to the next values of parameters and slots.
#pragma once

#include "compiler/training/Layers.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

/// The programs that the options name.
struct Programs {
  UpdateProgram optimiser, schedule;
  /// Of an optimiser that is told of layers, null of others; see Layers.h.
  std::unique_ptr<UpdateProgram> observe, updateLayer;
  /// The states that `observe` names, one number for each input, and those that `update_layer`
  /// names beside them, one for each output.
  std::vector<std::string> statistics, layerSlots;
};
Result<Programs> readPrograms(const Options &options, mlir::MLIRContext *context);

/// A layer with its inputs' statistics, this step's included, in the order of Programs::statistics,
/// and the moments of this step's batch alone.
struct ObservedLayer {
  Layer layer;
  llvm::SmallVector<mlir::Value> statistics;
  Moments batch;
};

/// What a layer's statistics become by this step, given those before it. `ofAll`: by the batch of
/// all processes.
Result<ObservedLayer> observed(const Layer &layer, llvm::ArrayRef<mlir::BlockArgument> before,
                               mlir::Value step, Programs &programs, graph::GraphCode &code,
                               bool ofAll);

/// What is updated: `gradients` are of the parameters, in their order.
struct Trained {
  llvm::ArrayRef<Parameter> parameters;
  llvm::ArrayRef<mlir::Value> gradients;
  llvm::ArrayRef<ObservedLayer> layers;
};

/// Adds the states of the optimiser and updates all of them; `step` counts the runs before this
/// one.
Status addUpdates(StepFunction &function, const Trained &trained, mlir::BlockArgument step,
                  const Options &options, Programs &programs, graph::GraphCode &code);

/// A tensor that is updated by gradients that come from elsewhere.
struct Updated {
  std::string name;
  mlir::RankedTensorType type;
  int64_t part = 0; // not 0: it is shared out, and a process has so many elements (Parts.h)
};
/// The rest of a step whose gradients are computed elsewhere (Options::gradientsAlone), as a
/// module: main(gradient.w, scale, w, velocity.w, step) -> (w', velocity.w', step + 1). Nothing is
/// clipped: by what all gradients are multiplied is the `scale`. With Options::scalesLoss the
/// loss's scale is moved here, and nothing else where the `scale` is not finite. `processes`: where
/// they are several, tensors that aren't shared out are parts of vectors that have several
/// parameters, and an optimiser that reads other elements than the one that it updates is refused.
Result<mlir::OwningOpRef<mlir::ModuleOp>> makeUpdate(llvm::ArrayRef<Updated> tensors,
                                                     const Options &options, int64_t processes,
                                                     mlir::MLIRContext &context);

} // namespace tensmith::training
