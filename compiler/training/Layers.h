// Layers y = W x + b whose inputs' statistics an optimiser asks for.
//
// An optimiser that has functions `observe` and `update_layer` beside `update` is told of layers:
// dense ones (a product with a matrix, plus a vector) and convolutions of one group, whose inputs
// are the patches under the window. `observe(mean, variance, batch_mean, batch_variance, step)`
// gives the next statistics of each input, which are states like the running ones of batch
// normalisation; `update_layer` gives the next weights and bias. What both see is the same for all
// layers: weights [outputs, inputs], bias [outputs, 1], statistics [1, inputs].
#pragma once

#include "compiler/training/Parameters.h"
#include "compiler/training/UpdateProgram.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

struct Layer {
  Parameter weights, bias;
  bool inputsFirst;   // the weights are [inputs, outputs]
  int64_t inputs;     // of one output
  mlir::Value values; // [..., inputs], or an image [N, channels, spatial...]
  mlir::Operation *op;

  /// Weights as [outputs, inputs], or the bias as [outputs, 1]; a gradient is of the same shape.
  mlir::Value matrix(const graph::GraphCode &code, mlir::Value weights) const;
  mlir::Value column(const graph::GraphCode &code, mlir::Value bias) const;
  /// Back to the parameter's own shape.
  mlir::Value weightsOf(const graph::GraphCode &code, mlir::Value matrix) const;
  mlir::Value biasOf(const graph::GraphCode &code, mlir::Value column) const;
  /// f32, and f64 of weights that are.
  mlir::Type statisticsType() const;
};

/// The layers of which both weights and bias are among the parameters and are used nowhere else.
std::vector<Layer> findLayers(llvm::ArrayRef<Parameter> parameters);

/// Over all samples and places of a batch, as [1, inputs]. The variance is that around the mean.
/// Null where they can't be computed. `ofAll`: of the batch of all processes.
struct Moments {
  mlir::Value mean, variance;
};
Moments momentsOf(const Layer &layer, graph::GraphBuilder &graph, bool ofAll);

} // namespace tensmith::training
