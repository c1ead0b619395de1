// Nearest codes, and GPTQ; see Rounding.h.
#include "quantize/Rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tensmith::quantize {
namespace {

/// What is added to H's diagonal, of its mean: GPTQ's own figure.
constexpr double kDamping = 0.01;
/// Narrower ranges that are tried, down to a fifth.
constexpr int kRanges = 40;

double squareError(std::span<const float> values, const Format &format, Step step) {
  double sum = 0;
  for (float value : values) {
    double error = double(value) - double(rounded(format, step, value));
    sum += error * error;
  }
  return sum;
}

Step stepOf(std::span<const float> values, const Format &format, bool bestRange) {
  double low = 0, high = 0, magnitudes = 0;
  for (float value : values) {
    low = std::min(low, double(value));
    high = std::max(high, double(value));
    magnitudes += std::abs(double(value));
  }
  double mean = values.empty() ? 0 : magnitudes / double(values.size());
  Step best = stepFor(format, low, high, mean);
  if (!bestRange || format.isBipolar())
    return best;
  double least = squareError(values, format, best);
  for (int i = 1; i < kRanges; ++i) {
    double part = 1 - 0.8 * i / kRanges;
    Step step = stepFor(format, low * part, high * part, mean);
    if (double error = squareError(values, format, step); error < least) {
      least = error;
      best = step;
    }
  }
  return best;
}

/// In place: the lower factor, L L^T = A; what is above the diagonal is left.
bool lowerFactor(std::vector<double> &a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double *row = &a[size_t(j * n)];
    for (int64_t k = 0; k < j; ++k)
      row[j] -= row[k] * row[k];
    if (!(row[j] > 0) || !std::isfinite(row[j]))
      return false;
    row[j] = std::sqrt(row[j]);
    for (int64_t i = j + 1; i < n; ++i) {
      double *below = &a[size_t(i * n)];
      double sum = below[j];
      for (int64_t k = 0; k < j; ++k)
        sum -= below[k] * row[k];
      below[j] = sum / row[j];
    }
  }
  return true;
}

/// Columns with large inputs first: what they err by, the most columns can make up for.
std::vector<int64_t> orderOf(const Moments &moments, int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater<>(), [&](int64_t i) {
    return std::pair(moments[size_t(i * size + i)], -i); // of equal ones the first
  });
  return order;
}

/// H in that order, and damped; columns that are always zero are as good as any.
std::vector<double> damped(const Moments &moments, const std::vector<int64_t> &order) {
  auto n = int64_t(order.size());
  double mean = 0;
  for (int64_t i = 0; i < n; ++i)
    mean += moments[size_t(i * n + i)] / double(n);
  std::vector<double> result(size_t(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      result[size_t(i * n + j)] = moments[size_t(order[size_t(i)] * n + order[size_t(j)])];
  for (int64_t i = 0; i < n; ++i)
    result[size_t(i * n + i)] += mean > 0 ? kDamping * mean : 1;
  return result;
}

} // namespace

int64_t Codes::groups() const {
  return format.granularity == Granularity::Group ? (columns + format.group - 1) / format.group : 1;
}

const Step &Codes::step(int64_t row, int64_t column) const {
  if (format.granularity == Granularity::Tensor)
    return steps[0];
  if (format.granularity == Granularity::Channel)
    return steps[size_t(row)];
  return steps[size_t(row * groups() + column / format.group)];
}

Matrix Codes::decoded() const {
  Matrix result{rows, columns, std::vector<float>(codes.size())};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      auto at = size_t(i * columns + j);
      result.values[at] = decode(format, step(i, j), codes[at]);
    }
  return result;
}

std::vector<Step> stepsOf(const Matrix &weights, const Format &format, bool bestRange) {
  if (format.granularity == Granularity::Tensor)
    return {stepOf(weights.values, format, bestRange)};
  std::vector<Step> steps;
  int64_t size = format.granularity == Granularity::Channel ? weights.columns : format.group;
  for (int64_t i = 0; i < weights.rows; ++i)
    for (int64_t first = 0; first < weights.columns; first += size) {
      auto count = size_t(std::min(size, weights.columns - first));
      steps.push_back(stepOf(weights.row(i).subspan(size_t(first), count), format, bestRange));
    }
  return steps;
}

Codes roundNearest(const Matrix &weights, const Format &format, bool bestRange) {
  Codes result{format, weights.rows, weights.columns, std::vector<float>(weights.values.size()),
               stepsOf(weights, format, bestRange)};
  for (int64_t i = 0; i < weights.rows; ++i)
    for (int64_t j = 0; j < weights.columns; ++j) {
      auto at = size_t(i * weights.columns + j);
      result.codes[at] = encode(format, result.step(i, j), weights.values[at]);
    }
  return result;
}

bool inverseFactor(std::vector<double> &a, int64_t n) {
  if (!lowerFactor(a, n))
    return false;
  // L^-1, column by column; then A^-1 = L^-T L^-1, and its own factor.
  std::vector<double> inverse(size_t(n * n), 0);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) {
      double sum = i == j ? 1 : 0;
      for (int64_t k = j; k < i; ++k)
        sum -= a[size_t(i * n + k)] * inverse[size_t(k * n + j)];
      inverse[size_t(i * n + j)] = sum / a[size_t(i * n + i)];
    }
  std::ranges::fill(a, 0);
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i <= k; ++i)
      for (int64_t j = 0; j <= i; ++j)
        a[size_t(i * n + j)] += inverse[size_t(k * n + i)] * inverse[size_t(k * n + j)];
  if (!lowerFactor(a, n))
    return false;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j)
      std::swap(a[size_t(j * n + i)], a[size_t(i * n + j)]);
  return true;
}

Result<Codes> roundGptq(const Matrix &weights, const Format &format, bool bestRange,
                        const Moments &moments) {
  int64_t n = weights.columns;
  std::vector<int64_t> order = orderOf(moments, n);
  std::vector<double> factor = damped(moments, order);
  if (!inverseFactor(factor, n))
    return invalidArgument("the inputs of calibration are not finite, or too large to be squared");
  Codes result{format, weights.rows, n, std::vector<float>(weights.values.size()),
               stepsOf(weights, format, bestRange)};
  std::vector<double> left(static_cast<size_t>(n));
  for (int64_t i = 0; i < weights.rows; ++i) {
    for (int64_t j = 0; j < n; ++j)
      left[size_t(j)] = weights.row(i)[size_t(order[size_t(j)])];
    for (int64_t j = 0; j < n; ++j) {
      int64_t column = order[size_t(j)];
      Step step = result.step(i, column);
      float code = encode(format, step, float(left[size_t(j)]));
      result.codes[size_t(i * n + column)] = code;
      const double *row = &factor[size_t(j * n)];
      double error = (left[size_t(j)] - double(decode(format, step, code))) / row[j];
      for (int64_t k = j + 1; k < n; ++k)
        left[size_t(k)] -= error * row[k];
    }
  }
  return result;
}

double outputError(const Matrix &weights, const Matrix &rounded, const Moments &moments) {
  int64_t n = weights.columns;
  double total = 0;
  std::vector<double> error(static_cast<size_t>(n));
  for (int64_t i = 0; i < weights.rows; ++i) {
    for (int64_t j = 0; j < n; ++j)
      error[size_t(j)] = double(weights.row(i)[size_t(j)]) - double(rounded.row(i)[size_t(j)]);
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < n; ++k)
        sum += moments[size_t(j * n + k)] * error[size_t(k)];
      total += error[size_t(j)] * sum;
    }
  }
  return total;
}

} // namespace tensmith::quantize
