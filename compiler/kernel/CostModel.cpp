// Arithmetic against traffic; see CostModel.h.
#include "compiler/kernel/CostModel.h"

#include <algorithm>

namespace tensmith::kernel {

double multiplyAddsPerCycle(const Machine &machine, double perLane) {
  constexpr double kVectorsPerCycle = 2;
  return kVectorsPerCycle * double(machine.lanes(sizeof(float))) * perLane;
}

double weightRate(double bytes, const Machine &machine) {
  return bytes < double(machine.lastCacheBytes / 2) ? machine.farBytesPerCycle
                                                    : machine.memoryBytesPerCycle;
}

double cyclesOf(const Products &products, const Machine &machine, double weightRate) {
  constexpr double kEfficiency = 0.9; // of packed products, against the peak
  double weights = products.batch * products.depth * products.columns;
  return std::max(weights * products.rows / multiplyAddsPerCycle(machine, products.perLane) /
                      kEfficiency,
                  weights * products.weightBytes / weightRate);
}

double cyclesOfTraffic(double bytes, const Machine &machine) {
  return bytes / (bytes / 2 < double(machine.l2Bytes) ? machine.nearBytesPerCycle
                                                      : machine.farBytesPerCycle);
}

double cyclesOfKernel(double operations, double bytes, bool multiplies, const Machine &machine) {
  // Of kernels as they come, large and small: a call, and what products reach of the peak. Other
  // operations are element-wise, transcendental ones among them.
  constexpr double kCall = 2000, kReachedOfPeak = 0.7, kCyclesOfElement = 2;
  double arithmetic = multiplies
                          ? operations / (2 * multiplyAddsPerCycle(machine) * kReachedOfPeak)
                          : operations * kCyclesOfElement / double(machine.lanes(sizeof(float)));
  return kCall + std::max(arithmetic, bytes / machine.farBytesPerCycle);
}

} // namespace tensmith::kernel
