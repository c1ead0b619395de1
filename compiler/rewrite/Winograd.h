// What minimal filtering costs where it is taken: for what it is weighed against (Fourier.cpp).
#pragma once

#include "compiler/rewrite/Rewrites.h"

namespace tensmith::rewrite {

/// Cycles of a core (ConvolutionCost.h) in the tile that the convolution would get; nothing where
/// the plain one stays.
std::optional<double> cyclesOfWinograd(graph::ConvOp conv, double weightRate,
                                       const Options &options);

} // namespace tensmith::rewrite
