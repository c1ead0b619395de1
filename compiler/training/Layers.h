// Layers y = W x + b whose inputs' statistics an optimiser asks for.
//
// An optimiser that has functions `observe` and `update_layer` beside `update` is told of layers,
// with a bias or without: dense ones (a product with a matrix), convolutions, whose inputs are the
// patches under the window, those of each group by themselves, and tables that rows are gathered
// of, whose input is 1 for the row that is taken and 0 for all others. `observe` gives the next
// statistics of each input, which are states like the running ones of batch normalisation;
// `update_layer` gives the next weights and bias. What both see is the same for all layers: weights
// [outputs, inputs], bias [outputs, 1], statistics [1, inputs], of convolutions with several groups
// [groups, inputs] in `observe` and [outputs, inputs] in `update_layer`.
//
// Moments are around the mean where there is a bias, which takes up what the mean adds; without one
// they are around 0.
#pragma once

#include "compiler/training/Parameters.h"
#include "compiler/training/UpdateProgram.h"

#include "compiler/graph/GraphCode.h"

namespace tensmith::training {

struct Layer {
  Parameter weights;
  std::optional<Parameter> bias;
  bool inputsFirst;   // the weights are [inputs, outputs]
  int64_t inputs;     // of one output
  mlir::Value values; // [..., inputs], an image [N, channels, spatial...], or rows' numbers
  mlir::Operation *op;
  int64_t groups = 1;

  /// How many terms of an output change at once, the bias counted: its fan-in. 1 of a table.
  int64_t fanIn() const;
  int64_t outputs() const;

  /// Weights as [outputs, inputs], or the bias as [outputs, 1]; a gradient is of the same shape.
  mlir::Value matrix(const graph::GraphCode &code, mlir::Value weights) const;
  /// Statistics [groups, inputs] as those of each output, or of all where there is one group.
  mlir::Value spread(const graph::GraphCode &code, mlir::Value statistics) const;
  /// The mean over the outputs of each group, [groups, inputs], of what is [outputs, inputs].
  mlir::Value meanOfOutputs(const graph::GraphCode &code, mlir::Value matrix) const;
  mlir::Value column(const graph::GraphCode &code, mlir::Value bias) const;
  /// Back to the parameter's own shape.
  mlir::Value weightsOf(const graph::GraphCode &code, mlir::Value matrix) const;
  mlir::Value biasOf(const graph::GraphCode &code, mlir::Value column) const;
  /// f32, and f64 of weights that are.
  mlir::Type statisticsType() const;
};

/// The layers whose weights are among the parameters and are used nowhere else. A bias that is no
/// parameter, or is used elsewhere, is none of the layer.
std::vector<Layer> findLayers(llvm::ArrayRef<Parameter> parameters);

/// Over all samples and places of a batch, as [groups, inputs]. Null where they can't be computed.
/// `ofAll`: of the batch of all processes.
struct Moments {
  mlir::Value mean, variance;
};
Moments momentsOf(const Layer &layer, graph::GraphBuilder &graph, bool ofAll);

} // namespace tensmith::training
