// Discrete Fourier transforms along the last dimension, of any length, in complex double.
//
// Lengths are cut into their prime factors (Cooley and Tukey, 1965); a prime factor above
// kDirectLength is a convolution of a power of two (Bluestein, "A linear filtering approach to the
// computation of discrete Fourier transform", 1970), so that the work is n log n for every length.
#include "eager/Operators.h"

#include "reference/Workspace.h"

#include <cmath>
#include <complex>
#include <numbers>

namespace tensmith::eager {
namespace {

using namespace reference;
using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

constexpr int64_t kDirectLength = 64;

/// exp(2 pi i k / n), with the angle made small first.
Complex root(int64_t k, int64_t n) {
  k %= n;
  double angle = 2 * std::numbers::pi * double(k) / double(n);
  return {std::cos(angle), std::sin(angle)};
}

int64_t leastFactor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0)
      return p;
  return n;
}

Signal transform(const Signal &x, int sign);

/// k^2 / 2 is (k^2 + j^2 - (k - j)^2) / 2 without the product k j: a convolution with a chirp.
Signal transformByChirp(const Signal &x, int sign) {
  int64_t n = int64_t(x.size()), m = 1;
  while (m < 2 * n)
    m *= 2;
  Signal chirp(static_cast<size_t>(n)), a(size_t(m), 0.0), b(size_t(m), 0.0);
  for (int64_t k = 0; k < n; ++k) {
    Complex w = root(k * k % (2 * n), 2 * n);
    chirp[size_t(k)] = sign > 0 ? w : std::conj(w);
    a[size_t(k)] = x[size_t(k)] * chirp[size_t(k)];
    b[size_t(k)] = std::conj(chirp[size_t(k)]);
    if (k > 0)
      b[size_t(m - k)] = b[size_t(k)];
  }
  Signal fa = transform(a, -1), fb = transform(b, -1);
  for (int64_t k = 0; k < m; ++k)
    fa[size_t(k)] *= fb[size_t(k)];
  Signal c = transform(fa, 1), y(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k)
    y[size_t(k)] = c[size_t(k)] / double(m) * chirp[size_t(k)];
  return y;
}

/// sum over j of x[j] exp(sign 2 pi i j k / n), not scaled.
Signal transform(const Signal &x, int sign) {
  int64_t n = int64_t(x.size());
  if (n <= 1)
    return x;
  int64_t p = leastFactor(n), m = n / p;
  if (p > kDirectLength)
    return transformByChirp(x, sign);
  std::vector<Signal> parts;
  for (int64_t r = 0; r < p; ++r) {
    Signal part(static_cast<size_t>(m));
    for (int64_t j = 0; j < m; ++j)
      part[size_t(j)] = x[size_t(j * p + r)];
    parts.push_back(transform(part, sign));
  }
  Signal roots(static_cast<size_t>(n)), y(static_cast<size_t>(n), 0.0);
  for (int64_t k = 0; k < n; ++k)
    roots[size_t(k)] = sign > 0 ? root(k, n) : std::conj(root(k, n));
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < p; ++r)
      y[size_t(k)] += parts[size_t(r)][size_t(k % m)] * roots[size_t(r * k % n)];
  return y;
}

Complex load(const HostTensor &x, int64_t i) {
  if (x.type() == DataType::C128)
    return x.as<Complex>()[size_t(i)];
  auto value = x.as<std::complex<float>>()[size_t(i)];
  return {value.real(), value.imag()};
}

/// Complex lines to complex lines. "inverse": exp(+...); "scale": what results are multiplied by.
Outcome evaluateFourier(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  workspace.require(x.rank() > 0 && isComplex(x.type()), "x", "has no lines of complex numbers");
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok())
    return workspace.status();
  int64_t size = x.shape().back();
  int sign = invocation.attributes.integer("inverse") ? 1 : -1;
  double scale = invocation.attributes.real("scale", 1);
  for (int64_t begin = 0; begin < x.size(); begin += size) {
    Signal line(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i)
      line[size_t(i)] = load(x, begin + i);
    Signal result = transform(line, sign);
    for (int64_t i = 0; i < size; ++i) {
      Complex value = result[size_t(i)] * scale;
      if (x.type() == DataType::C128)
        y.as<Complex>()[size_t(begin + i)] = value;
      else
        y.as<std::complex<float>>()[size_t(begin + i)] = {float(value.real()), float(value.imag())};
    }
  }
  return workspace.finish(std::move(y));
}

} // namespace

Evaluator fourierEvaluator(std::string_view name) {
  return name == "fourier" ? evaluateFourier : nullptr;
}

} // namespace tensmith::eager
