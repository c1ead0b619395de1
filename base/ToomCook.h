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
//
// Of integers there are matrices of whole numbers over the points 0, 1, -1, 2, -2, with which y
// comes out `factor` times too large: exact, where the numbers in between fit their type. A product
// along both dimensions may wrap around 2^bits: factor^2 is odd * 2^twos, so that multiplying by
// the odd part's inverse leaves 2^twos * y, if that fits.
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
  int64_t factor = 1;          // of y
};

/// Whether there are points enough.
bool hasToomCook(int64_t outputs, int64_t taps);
ToomCook toomCook(int64_t outputs, int64_t taps);

/// The same of matrices of whole numbers.
bool hasWholeToomCook(int64_t outputs, int64_t taps);
ToomCook wholeToomCook(int64_t outputs, int64_t taps);
/// By how much the transform of a vector, [rows, size of it], can be larger than that is.
int64_t growth(const std::vector<double> &matrix, int64_t rows);

/// What takes factor^2 off a number of 32 bits: multiply by `inverse`, then shift to the right with
/// the sign.
struct Unscaling {
  uint32_t inverse;
  int twos;
};
Unscaling unscaling(int64_t factor);

} // namespace tensmith
