// Vandermonde and Lagrange matrices over the points; see ToomCook.h.
#include "base/ToomCook.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>

namespace tensmith {
namespace {

constexpr double kPoints[] = {0, 1, -1, 0.5, -2, 2, -0.5};
constexpr double kWholePoints[] = {0, 1, -1, 2, -2};
/// Of a row of whole weights. Twice of it, of bytes, fits 16 bits.
constexpr int64_t kLargestRow = 12;

/// Coefficients, the constant first, of the product of (x - point) over all points but `without`.
std::vector<double> polynomial(std::span<const double> points, size_t without) {
  std::vector<double> product{1};
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == without)
      continue;
    std::vector<double> next(product.size() + 1);
    for (size_t k = 0; k < product.size(); ++k) {
      next[k + 1] += product[k];
      next[k] -= points[i] * product[k];
    }
    product = std::move(next);
  }
  return product;
}

bool hasPoints(int64_t outputs, int64_t taps, int64_t points) {
  return outputs >= 1 && taps >= 1 && outputs <= points + 1 && taps <= points + 1 &&
         outputs + taps - 2 <= points;
}

double product(std::span<const double> points, size_t at) {
  double scale = 1;
  for (size_t other = 0; other < points.size(); ++other)
    if (other != at)
      scale *= points[at] - points[other];
  return scale;
}

/// The matrices whose weights still lack a divisor for each point, `scales`; of the last row, which
/// is infinity, that is 1.
ToomCook undivided(int64_t outputs, int64_t taps, std::span<const double> allPoints,
                   std::vector<double> &scales) {
  const int64_t size = outputs + taps - 1, finite = size - 1;
  std::span<const double> points = allPoints.first(size_t(finite));
  ToomCook matrices{outputs, taps, size, {}, {}, {}};
  matrices.output.resize(size_t(outputs * size));
  matrices.weights.resize(size_t(size * taps));
  matrices.input.resize(size_t(size * size));
  for (int64_t j = 0; j < finite; ++j) {
    double point = points[size_t(j)];
    scales.push_back(product(points, size_t(j)));
    for (int64_t i = 0; i < outputs; ++i)
      matrices.output[size_t(i * size + j)] = std::pow(point, double(i));
    for (int64_t k = 0; k < taps; ++k)
      matrices.weights[size_t(j * taps + k)] = std::pow(point, double(k));
    std::vector<double> row = polynomial(points, size_t(j));
    std::ranges::copy(row, matrices.input.begin() + j * size);
  }
  scales.push_back(1);
  matrices.output[size_t(outputs * size - 1)] = 1;
  matrices.weights[size_t(size * taps - 1)] = 1;
  std::vector<double> last = polynomial(points, points.size());
  std::ranges::copy(last, matrices.input.begin() + finite * size);
  return matrices;
}

int64_t rowGrowth(std::span<const double> row) {
  double sum = 0;
  for (double factor : row)
    sum += std::abs(factor);
  return int64_t(sum);
}

/// The largest divisor of the number that is at most `most`, or 1.
int64_t divisorUpTo(int64_t number, int64_t most) {
  for (int64_t divisor = std::min(number, most); divisor > 1; --divisor)
    if (number % divisor == 0)
      return divisor;
  return 1;
}

} // namespace

bool hasToomCook(int64_t outputs, int64_t taps) {
  return hasPoints(outputs, taps, int64_t(std::size(kPoints)));
}

ToomCook toomCook(int64_t outputs, int64_t taps) {
  std::vector<double> scales;
  ToomCook matrices = undivided(outputs, taps, kPoints, scales);
  for (size_t i = 0; i < matrices.weights.size(); ++i)
    matrices.weights[i] /= scales[i / size_t(taps)];
  return matrices;
}

bool hasWholeToomCook(int64_t outputs, int64_t taps) {
  return hasPoints(outputs, taps, int64_t(std::size(kWholePoints)));
}

ToomCook wholeToomCook(int64_t outputs, int64_t taps) {
  std::vector<double> scales;
  ToomCook matrices = undivided(outputs, taps, kWholePoints, scales);
  for (double scale : scales)
    matrices.factor = std::lcm(matrices.factor, int64_t(std::abs(scale)));
  // The weights, which are transformed once, take what their type has room for of each factor.
  for (int64_t j = 0; j < matrices.size; ++j) {
    std::span row = std::span(matrices.weights).subspan(size_t(j * taps), size_t(taps));
    int64_t factor = matrices.factor / int64_t(std::abs(scales[size_t(j)]));
    int64_t ofWeights = divisorUpTo(factor, kLargestRow / rowGrowth(row));
    for (double &weight : row)
      weight *= double(ofWeights) * (scales[size_t(j)] < 0 ? -1 : 1);
    for (int64_t i = 0; i < outputs; ++i)
      matrices.output[size_t(i * matrices.size + j)] *= double(factor / ofWeights);
  }
  return matrices;
}

int64_t growth(const std::vector<double> &matrix, int64_t rows) {
  size_t columns = matrix.size() / size_t(rows);
  int64_t most = 0;
  for (size_t row = 0; row < size_t(rows); ++row)
    most = std::max(most, rowGrowth(std::span(matrix).subspan(row * columns, columns)));
  return most;
}

Unscaling unscaling(int64_t factor) {
  uint64_t square = uint64_t(factor) * uint64_t(factor);
  int twos = std::countr_zero(square);
  uint32_t odd = uint32_t(square >> twos), inverse = odd;
  // Newton's iteration doubles the bits that are right: three at first.
  for (int bits = 3; bits < 32; bits *= 2)
    inverse *= 2 - odd * inverse;
  return {inverse, twos};
}

} // namespace tensmith
