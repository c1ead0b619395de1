// The matrices of minimal filtering: `outputs` neighbouring outputs of a filter of `taps` from
// outputs + taps - 1 inputs with as many products, where the plain sum takes outputs * taps.
//
//   y = output * ((weights * g) . (input * d))
//
// Toom and Cook's multiplication of polynomials, transposed; Winograd, "Arithmetic Complexity of
// Computations" (1980), and Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"
// (2015), who use it along both dimensions of an image. The polynomials are evaluated at infinity
// and at the points 0, 1, -1, 1/2, -2, 2, -1/2 in this order, which of the small ones keeps fp32's
// error least (Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution
// for Deep Neural Networks", 2020).
#pragma once

#include <cstdint>
#include <vector>

namespace tensmith {

struct ToomCook {
  int64_t outputs = 0, taps = 0;
  int64_t size = 0; // of the input: outputs + taps - 1
  // Row-major.
  std::vector<double> output;  // [outputs, size]
  std::vector<double> weights; // [size, taps]
  std::vector<double> input;   // [size, size]
};

/// Whether there are points enough.
bool hasToomCook(int64_t outputs, int64_t taps);
ToomCook toomCook(int64_t outputs, int64_t taps);

} // namespace tensmith
