// What convolutions are estimated to cost, in cycles of one core that multiplies and adds two
// vectors in each: for the rewrites that choose between ways to compute them.
#pragma once

#include "compiler/rewrite/Rewrites.h"

namespace tensmith::rewrite {

/// At which constants arrive, in bytes, that are so many together: out of the last cache, if they
/// stay there from run to run beside what else needs it.
double weightRate(double bytes, const kernel::MachineShape &machine);

/// `batch` products of [rows, depth] by constants [depth, columns].
struct Products {
  double batch, rows, depth, columns;
};
/// In f32.
double cyclesOf(const Products &products, const kernel::MachineShape &machine, double weightRate);

/// Bytes that are written, and read where they are used next.
double cyclesOfTraffic(double bytes, const kernel::MachineShape &machine);

/// By minimal filtering, in the tile that it would get; nothing where the plain convolution stays.
std::optional<double> cyclesOfWinograd(graph::ConvOp conv, double weightRate,
                                       const Options &options);

} // namespace tensmith::rewrite
