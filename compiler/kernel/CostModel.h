// The cost model: what kernels are estimated to take, in cycles of one core.
//
// Rewrites choose algorithms by it, fusion chains of convolutions, the memory budget what is
// computed again. All of them count in the same cycles, of a core that multiplies and adds two
// vectors in each (`Machine`), and take the larger of arithmetic and traffic: the two overlap. What
// differs among machines is data of the machine, measured where it was (MachineLimits.h).
#pragma once

#include "compiler/kernel/Machine.h"

namespace tensmith::kernel {

/// Multiply-adds of f32 in a cycle, at the peak. `perLane`: of numbers of which a lane of floats
/// holds several, the products that an instruction adds up in it.
double multiplyAddsPerCycle(const Machine &machine, double perLane = 1);

/// Bytes in a cycle at which constants arrive that are so many bytes together: out of the last
/// cache, if they stay there from run to run beside what else needs it.
double weightRate(double bytes, const Machine &machine);

/// `batch` products of [rows, depth] by constants [depth, columns].
struct Products {
  double batch, rows, depth, columns;
  double weightBytes = sizeof(float); // of an element
  double perLane = 1;                 // as above
};
double cyclesOf(const Products &products, const Machine &machine, double weightRate);

/// Bytes that are written, and read where they are used next.
double cyclesOfTraffic(double bytes, const Machine &machine);

/// Of a kernel of so many operations and bytes (Work.h). `multiplies`: they are multiply-adds of
/// products (Template.h).
double cyclesOfKernel(double operations, double bytes, bool multiplies, const Machine &machine);

} // namespace tensmith::kernel
