// In what precision operators work where a step of training may be of mixed precision: the rules
// that rewrite/MixedPrecision.cpp goes by.
//
// Products of matrices are what takes the time, and their sums forgive rounded factors
// (Micikevicius et al., "Mixed precision training", ICLR 2018). Element-wise arithmetic is made in
// f32 registers whatever it reads and writes: there is nothing to gain but memory.
#pragma once

#include "mlir/IR/Operation.h"

namespace tensmith::graph {

enum class PrecisionRule : uint8_t {
  Low,     // factors are rounded to 16 bits, sums are f32
  Follows, // f32; the result may be rounded where products read it
  Wide,    // f32, as is what it gives: sums, norms, softmax, losses, and what grows fast
};

/// Of an operator of the graph dialect that is no control flow; `Wide` where nothing else is said.
PrecisionRule precisionRule(mlir::Operation *op);

/// Of an operator that is `Wide` whatever it does, as those of optimisers are: gradients and
/// updates lose nothing.
inline constexpr char kKeepsPrecision[] = "graph.keeps_precision";
void keepPrecision(mlir::Operation *op);

} // namespace tensmith::graph
