// Convolutions as products of Fourier transforms: how an image is cut into tiles (overlap and
// save), which numbers of a tile's spectrum are kept and where, and the transforms themselves, as
// sequences of sums and products that whoever needs them fills with numbers or with code.
//
//   y = inverse(forward(x) . conjugate(forward(w)))     circular along rows * columns
//
// of which the first rows - window + 1 outputs along a dimension don't wrap around. A spectrum of
// real numbers is symmetric, so half of it is kept: columns 0 to columns / 2, and of column 0 and
// the one in the middle, which are transforms of real numbers themselves, rows 0 to rows / 2.
//
// A line of pixels whose number is a product of two that have no common factor is a tile too: pixel
// p lies in row p mod rows and column p mod columns, and a convolution along the line is one along
// both (Good, 1958; Agarwal and Cooley, "New Algorithms for Digital Convolution", 1977). So long
// lines take two short passes and no factors in between.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace tensmith {

struct FourierTile {
  int64_t rows = 1, columns = 1; // of the transform
  bool isLine = false;
  int64_t height = 1, width = 1; // pixels of an image; of a line one by all
  int64_t down = 1, across = 1;  // outputs

  /// Of the transform's two sizes, and of a window (dilated: with what lies between its taps) along
  /// one or two dimensions. Nothing where there is no such tile.
  static std::optional<FourierTile> of(std::span<const int64_t> tile,
                                       std::span<const int64_t> window);

  int64_t numbers() const { return rows * columns; }
  /// Where a pixel lies in [rows, columns].
  int64_t place(int64_t i, int64_t j) const {
    return isLine ? j % rows * columns + j % columns : i * columns + j;
  }

  /// Tiles that cover so many outputs, of an image or along a line.
  int64_t tilesDown(std::span<const int64_t> outputs) const {
    return isLine ? 1 : (outputs.front() - 1) / down + 1;
  }
  int64_t tilesAcross(std::span<const int64_t> outputs) const {
    return (outputs.back() - 1) / across + 1;
  }
  int64_t tilesOf(std::span<const int64_t> outputs) const {
    return tilesDown(outputs) * tilesAcross(outputs);
  }

  // Of the half that is kept. Planes of numbers: a real frequency has one, another `parts`.
  int64_t halfColumns() const { return columns / 2 + 1; }
  bool isRealColumn(int64_t column) const { return column == 0 || 2 * column == columns; }
  int64_t realColumns() const { return columns % 2 == 0 ? 2 : 1; }
  /// Rows that are kept of a column, and whether such a frequency is real.
  int64_t keptRows(int64_t column) const { return isRealColumn(column) ? rows / 2 + 1 : rows; }
  bool isReal(int64_t row, int64_t column) const {
    return isRealColumn(column) && (row == 0 || 2 * row == rows);
  }
  int64_t planesOfColumn(int64_t column, int64_t parts) const {
    int64_t reals = rows % 2 == 0 ? 2 : 1;
    return isRealColumn(column) ? reals + parts * ((rows - 1) / 2) : parts * rows;
  }
  int64_t firstPlane(int64_t column, int64_t parts) const {
    return column == 0 ? 0 : planesOfColumn(0, parts) + (column - 1) * parts * rows;
  }
  int64_t planes(int64_t parts) const {
    return firstPlane(halfColumns() - 1, parts) + planesOfColumn(halfColumns() - 1, parts);
  }
};

/// Of a complex number where products are matrices: three, of whose products one of complex numbers
/// is made by sums (Gauss). For the image re + im, re, im; for the weights re, im - re, re + im; of
/// the products p the real part is p0 - p2 and the imaginary one p0 + p1.
inline constexpr int64_t kFourierThirds = 3;
/// Where products are element by element: real and imaginary part.
inline constexpr int64_t kFourierPairs = 2;

/// Transforms of any length, by factors of 4 where there are, of 2, and of odd primes.
///
/// `Arithmetic` has a type Number, and add, sub, negate, scale(double, a), and
/// scaleAdd(double factor, a, b) for factor * a + b.
template <typename Arithmetic> class Fourier {
public:
  using Number = typename Arithmetic::Number;
  struct Complex {
    Number re;
    std::optional<Number> im; // none: real
  };
  using Numbers = std::vector<Number>;
  using Complexes = std::vector<Complex>;

  explicit Fourier(Arithmetic arithmetic = {}) : do_(arithmetic) {}

  /// X[k] = sum over n of x[n] * exp(sign * 2 pi i n k / size), unscaled.
  Complexes transform(const Complexes &x, int sign) {
    int64_t size = int64_t(x.size()), radix = radixOf(size), part = size / radix;
    if (size == 1)
      return x;
    std::vector<Complexes> parts;
    for (int64_t j = 0; j < radix; ++j)
      parts.push_back(transform(everyOf(x, j, radix), sign));
    Complexes y(x.size(), x[0]);
    for (int64_t k = 0; k < part; ++k) {
      Complexes turned;
      for (int64_t j = 0; j < radix; ++j)
        turned.push_back(turn(parts[size_t(j)][size_t(k)], sign * j * k, size));
      turned = butterfly(turned, sign);
      for (int64_t q = 0; q < radix; ++q)
        y[size_t(k + q * part)] = turned[size_t(q)];
    }
    return y;
  }

  /// Of real numbers with the sign -1: the frequencies 0 to size / 2.
  Complexes forward(const Numbers &x) {
    int64_t size = int64_t(x.size()), radix = radixOf(size), part = size / radix;
    if (size == 1)
      return {{x[0], {}}};
    std::vector<Complexes> parts;
    for (int64_t j = 0; j < radix; ++j)
      parts.push_back(forward(everyOf(x, j, radix)));
    Complexes y(size_t(size / 2 + 1), Complex{x[0], {}});
    for (int64_t k = 0; k <= part / 2; ++k) {
      Complexes turned;
      for (int64_t j = 0; j < radix; ++j)
        turned.push_back(turn(parts[size_t(j)][size_t(k)], -j * k, size));
      turned = butterfly(turned, -1);
      // What lies beyond the middle is told by its conjugate.
      for (int64_t q = 0; q < radix; ++q) {
        int64_t at = k + q * part;
        if (2 * at <= size)
          y[size_t(at)] = turned[size_t(q)];
        else
          y[size_t(size - at)] = conjugate(turned[size_t(q)]);
      }
    }
    return realAtTheEnds(y, size);
  }

  /// The other way: real numbers, times size, from the frequencies 0 to size / 2.
  Numbers inverse(const Complexes &x, int64_t size) {
    if (size == 1)
      return {x[0].re};
    int64_t radix = radixOf(size), part = size / radix;
    std::vector<Complexes> parts(size_t(radix), Complexes(size_t(part / 2 + 1), x[0]));
    for (int64_t k = 0; k <= part / 2; ++k) {
      Complexes all;
      for (int64_t q = 0; q < radix; ++q) {
        int64_t at = k + q * part;
        all.push_back(2 * at <= size ? x[size_t(at)] : conjugate(x[size_t(size - at)]));
      }
      all = butterfly(all, 1);
      for (int64_t j = 0; j < radix; ++j)
        parts[size_t(j)][size_t(k)] = turn(all[size_t(j)], j * k, size);
    }
    Numbers y(size_t(size), x[0].re);
    for (int64_t j = 0; j < radix; ++j) {
      Numbers own = inverse(realAtTheEnds(parts[size_t(j)], part), part);
      for (int64_t i = 0; i < part; ++i)
        y[size_t(j + radix * i)] = own[size_t(i)];
    }
    return y;
  }

private:
  static int64_t radixOf(int64_t size) {
    for (int64_t radix : {4, 2})
      if (size % radix == 0)
        return radix;
    int64_t radix = 3;
    while (radix < size && size % radix != 0)
      radix += 2;
    return radix;
  }

  template <typename T>
  static std::vector<T> everyOf(const std::vector<T> &x, int64_t at, int64_t step) {
    std::vector<T> taken;
    for (; at < int64_t(x.size()); at += step)
      taken.push_back(x[size_t(at)]);
    return taken;
  }

  /// The sums of real numbers cancel at frequency 0 and in the middle.
  static Complexes realAtTheEnds(Complexes x, int64_t size) {
    x[0].im.reset();
    if (size % 2 == 0)
      x[size_t(size / 2)].im.reset();
    return x;
  }

  Complexes butterfly(const Complexes &x, int sign) {
    if (x.size() == 2)
      return {add(x[0], x[1]), sub(x[0], x[1])};
    if (x.size() == 4) {
      Complex a = add(x[0], x[2]), b = sub(x[0], x[2]), c = add(x[1], x[3]), d = sub(x[1], x[3]);
      Complex up = addTurned(b, d), down = subTurned(b, d); // b + i d, b - i d
      return {add(a, c), sign > 0 ? up : down, sub(a, c), sign > 0 ? down : up};
    }
    return butterflyOfPrime(x, sign);
  }

  Complexes butterflyOfPrime(const Complexes &x, int sign) {
    size_t prime = x.size();
    Complexes sums, differences, y(prime, x[0]);
    for (size_t j = 1; 2 * j < prime; ++j) {
      sums.push_back(add(x[j], x[prime - j]));
      differences.push_back(sub(x[j], x[prime - j]));
      y[0] = add(y[0], sums.back());
    }
    for (size_t q = 1; 2 * q < prime; ++q) {
      Complex even = x[0], odd = scaled(sine(int64_t(q), prime), differences[0]);
      for (size_t j = 1; 2 * j < prime; ++j)
        even = scaledAdd(std::cos(angle(int64_t(j * q), prime)), sums[j - 1], even);
      for (size_t j = 2; 2 * j < prime; ++j)
        odd = scaledAdd(sine(int64_t(j * q), prime), differences[j - 1], odd);
      Complex up = addTurned(even, odd), down = subTurned(even, odd);
      y[q] = sign > 0 ? up : down;
      y[prime - q] = sign > 0 ? down : up;
    }
    return y;
  }

  static double angle(int64_t numerator, size_t size) {
    return 2 * std::numbers::pi * double(numerator % int64_t(size)) / double(size);
  }
  static double sine(int64_t numerator, size_t size) { return std::sin(angle(numerator, size)); }

  /// x * exp(2 pi i steps / size).
  Complex turn(const Complex &x, int64_t steps, int64_t size) {
    int64_t at = ((steps % size) + size) % size;
    if (at == 0)
      return x;
    if (2 * at == size)
      return {do_.negate(x.re), x.im ? std::optional(do_.negate(*x.im)) : std::nullopt};
    double re = std::cos(angle(at, size_t(size))), im = std::sin(angle(at, size_t(size)));
    if (4 * at == size || 4 * at == 3 * size) { // i, -i
      bool up = 4 * at == size;
      if (!x.im)
        return {do_.scale(0, x.re), up ? x.re : do_.negate(x.re)};
      return {up ? do_.negate(*x.im) : *x.im, up ? x.re : do_.negate(x.re)};
    }
    if (!x.im)
      return {do_.scale(re, x.re), do_.scale(im, x.re)};
    return {do_.scaleAdd(re, x.re, do_.scale(-im, *x.im)),
            do_.scaleAdd(re, *x.im, do_.scale(im, x.re))};
  }

  Complex conjugate(const Complex &x) {
    return {x.re, x.im ? std::optional(do_.negate(*x.im)) : std::nullopt};
  }
  Complex add(const Complex &a, const Complex &b) {
    return {do_.add(a.re, b.re), a.im && b.im ? do_.add(*a.im, *b.im) : a.im ? a.im : b.im};
  }
  Complex sub(const Complex &a, const Complex &b) {
    return {do_.sub(a.re, b.re), difference(a.im, b.im)};
  }
  /// a + i b, a - i b.
  Complex addTurned(const Complex &a, const Complex &b) {
    return {b.im ? do_.sub(a.re, *b.im) : a.re, a.im ? do_.add(*a.im, b.re) : b.re};
  }
  Complex subTurned(const Complex &a, const Complex &b) {
    return {b.im ? do_.add(a.re, *b.im) : a.re, a.im ? do_.sub(*a.im, b.re) : do_.negate(b.re)};
  }
  Complex scaled(double factor, const Complex &x) {
    return {do_.scale(factor, x.re), x.im ? std::optional(do_.scale(factor, *x.im)) : std::nullopt};
  }
  Complex scaledAdd(double factor, const Complex &x, const Complex &to) {
    Number re = do_.scaleAdd(factor, x.re, to.re);
    if (!x.im)
      return {re, to.im};
    return {re, to.im ? do_.scaleAdd(factor, *x.im, *to.im) : do_.scale(factor, *x.im)};
  }
  std::optional<Number> difference(const std::optional<Number> &a, const std::optional<Number> &b) {
    if (!b)
      return a;
    return a ? do_.sub(*a, *b) : do_.negate(*b);
  }

  Arithmetic do_;
};

} // namespace tensmith
