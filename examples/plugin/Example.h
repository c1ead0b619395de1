// The parts of the example, each in a file of its own; Plugin.cpp registers them.
#pragma once

#include "compiler/extend/Registry.h"

#include "ExampleDialect.h.inc"
#define GET_OP_CLASSES
#include "ExampleOps.h.inc"

namespace example {

/// What the operators mean (References.cpp).
std::span<const tensmith::reference::Entry> references();
/// How changes go through them (Gradients.cpp).
std::span<const tensmith::graph::NamedGradientRule> gradients();
/// max(x - t, 0) - max(-x - t, 0) becomes the operator (RecogniseSoftThreshold.cpp).
mlir::LogicalResult recogniseSoftThreshold(mlir::func::FuncOp function,
                                           const tensmith::rewrite::Options &options);
/// Kernels of differences (DifferenceKernel.cpp).
extern const tensmith::kernel::Template kDifferences;
/// "four:plain", a machine with vectors of four floats that C stands for (FourTarget.cpp).
tensmith::Result<std::unique_ptr<tensmith::targets::Target>> openFour(std::string_view name);

} // namespace example
