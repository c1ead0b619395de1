// Vandermonde and Lagrange matrices over the points; see ToomCook.h.
#include "base/ToomCook.h"

#include <cmath>
#include <span>

namespace tensmith {
namespace {

constexpr double kPoints[] = {0, 1, -1, 0.5, -2, 2, -0.5};

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

} // namespace

bool hasToomCook(int64_t outputs, int64_t taps) {
  return outputs >= 1 && taps >= 1 && outputs <= int64_t(std::size(kPoints)) + 1 &&
         taps <= int64_t(std::size(kPoints)) + 1 &&
         outputs + taps - 2 <= int64_t(std::size(kPoints));
}

ToomCook toomCook(int64_t outputs, int64_t taps) {
  const int64_t size = outputs + taps - 1, finite = size - 1;
  ToomCook matrices{outputs, taps, size, {}, {}, {}};
  matrices.output.resize(size_t(outputs * size));
  matrices.weights.resize(size_t(size * taps));
  matrices.input.resize(size_t(size * size));
  std::span<const double> points(kPoints, size_t(finite));
  for (int64_t j = 0; j < finite; ++j) {
    double point = points[size_t(j)], scale = 1;
    for (int64_t other = 0; other < finite; ++other)
      if (other != j)
        scale *= point - points[size_t(other)];
    for (int64_t i = 0; i < outputs; ++i)
      matrices.output[size_t(i * size + j)] = std::pow(point, double(i));
    for (int64_t k = 0; k < taps; ++k)
      matrices.weights[size_t(j * taps + k)] = std::pow(point, double(k)) / scale;
    std::vector<double> row = polynomial(points, size_t(j));
    for (size_t k = 0; k < row.size(); ++k)
      matrices.input[size_t(j * size) + k] = row[k];
  }
  matrices.output[size_t(outputs * size - 1)] = 1;
  matrices.weights[size_t(size * taps - 1)] = 1;
  std::vector<double> last = polynomial(points, points.size());
  for (size_t k = 0; k < last.size(); ++k)
    matrices.input[size_t(finite * size) + k] = last[k];
  return matrices;
}

} // namespace tensmith
