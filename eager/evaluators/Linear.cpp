// Evaluations of linear algebra over the last two dimensions, in double or complex double whatever
// the elements are, and rounded once: products, LU, Cholesky, QR, eigenvalues of Hermitian matrices
// and the singular value decomposition.
//
// Sources: Golub and Van Loan, "Matrix Computations", 4th edition: LU with partial pivoting (3.4),
// Householder QR (5.2), cyclic Jacobi for Hermitian matrices (8.5), one-sided Jacobi for singular
// values (8.6.3, after Hestenes, 1958), which is accurate to the last places for small values too.
//
// A decomposition of a matrix with a number that is not finite is all NaN; the others of its stack
// are not touched by it.
#include "eager/Operators.h"

#include "reference/Workspace.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

namespace tensmith::eager {
namespace {

using namespace reference;
using Complex = std::complex<double>;

double conj(double x) { return x; }
Complex conj(const Complex &x) { return std::conj(x); }
double squared(double x) { return x * x; }
double squared(const Complex &x) { return std::norm(x); }

/// Row-major.
template <typename T> struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<T> numbers;

  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), numbers(size_t(rows * columns), T(0)) {}
  T &operator()(int64_t i, int64_t j) { return numbers[size_t(i * columns + j)]; }
  const T &operator()(int64_t i, int64_t j) const { return numbers[size_t(i * columns + j)]; }
};
template <typename T> Matrix<T> identity(int64_t size) {
  Matrix<T> result(size, size);
  for (int64_t i = 0; i < size; ++i)
    result(i, i) = 1;
  return result;
}
template <typename T> Matrix<T> adjoint(const Matrix<T> &a) {
  Matrix<T> result(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j)
      result(j, i) = conj(a(i, j));
  return result;
}

/// The largest magnitude; NaN where a number is not finite.
template <typename T> double magnitude(const Matrix<T> &a) {
  double largest = 0;
  for (const T &number : a.numbers) {
    double size = std::abs(number);
    if (!std::isfinite(size))
      return std::nan("");
    largest = std::max(largest, size);
  }
  return largest;
}
template <typename T> Matrix<T> notANumber(int64_t rows, int64_t columns) {
  Matrix<T> result(rows, columns);
  std::fill(result.numbers.begin(), result.numbers.end(), T(std::nan("")));
  return result;
}

template <typename T> T loadNumber(const HostTensor &x, int64_t i) {
  if constexpr (std::is_same_v<T, Complex>) {
    if (x.type() == DataType::C128)
      return x.as<Complex>()[size_t(i)];
    auto value = x.as<std::complex<float>>()[size_t(i)];
    return {value.real(), value.imag()};
  } else {
    return x.getDouble(i);
  }
}
template <typename T> void storeNumber(HostTensor &x, int64_t i, T value) {
  if constexpr (std::is_same_v<T, Complex>) {
    if (x.type() == DataType::C128)
      x.as<Complex>()[size_t(i)] = value;
    else
      x.as<std::complex<float>>()[size_t(i)] = {float(value.real()), float(value.imag())};
  } else {
    x.setDouble(i, value);
  }
}

template <typename T> Matrix<T> loadMatrix(const HostTensor &x, int64_t number) {
  size_t rank = x.shape().size();
  Matrix<T> result(x.shape()[rank - 2], x.shape()[rank - 1]);
  int64_t size = result.rows * result.columns;
  for (int64_t i = 0; i < size; ++i)
    result.numbers[size_t(i)] = loadNumber<T>(x, number * size + i);
  return result;
}
template <typename T>
void storeNumbers(HostTensor &x, int64_t number, const std::vector<T> &numbers) {
  for (size_t i = 0; i < numbers.size(); ++i)
    storeNumber<T>(x, number * int64_t(numbers.size()) + int64_t(i), numbers[i]);
}

// ---- the algorithms

/// PA = LU in place, L without its ones; the sign of P. The rows' order goes to `order`. Zero in
/// the diagonal where the matrix is singular.
template <typename T> int factorLu(Matrix<T> &a, std::vector<int64_t> &order) {
  int64_t n = a.rows;
  int sign = 1;
  order.resize(size_t(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::abs(a(i, k)) > std::abs(a(pivot, k)))
        pivot = i;
    if (pivot != k) {
      for (int64_t j = 0; j < n; ++j)
        std::swap(a(k, j), a(pivot, j));
      std::swap(order[size_t(k)], order[size_t(pivot)]);
      sign = -sign;
    }
    if (a(k, k) == T(0))
      continue;
    for (int64_t i = k + 1; i < n; ++i) {
      T factor = a(i, k) /= a(k, k);
      for (int64_t j = k + 1; j < n; ++j)
        a(i, j) -= factor * a(k, j);
    }
  }
  return sign;
}

template <typename T> bool isSingular(const Matrix<T> &lu) {
  for (int64_t i = 0; i < lu.rows; ++i)
    if (lu(i, i) == T(0))
      return true;
  return false;
}

template <typename T>
Matrix<T> solveLu(const Matrix<T> &lu, const std::vector<int64_t> &order, const Matrix<T> &b) {
  Matrix<T> x(b.rows, b.columns);
  int64_t n = b.rows;
  for (int64_t j = 0; j < b.columns; ++j) {
    for (int64_t i = 0; i < n; ++i) {
      T sum = b(order[size_t(i)], j);
      for (int64_t k = 0; k < i; ++k)
        sum -= lu(i, k) * x(k, j);
      x(i, j) = sum;
    }
    for (int64_t i = n; i-- > 0;) {
      T sum = x(i, j);
      for (int64_t k = i + 1; k < n; ++k)
        sum -= lu(i, k) * x(k, j);
      x(i, j) = sum / lu(i, i);
    }
  }
  return x;
}

/// The lower factor; false where the matrix is not positive definite. Reads the lower half.
template <typename T> bool factorCholesky(Matrix<T> &a) {
  for (int64_t j = 0; j < a.rows; ++j) {
    double diagonal = std::real(a(j, j));
    for (int64_t k = 0; k < j; ++k)
      diagonal -= squared(a(j, k));
    if (!(diagonal > 0))
      return false;
    a(j, j) = std::sqrt(diagonal);
    for (int64_t i = j + 1; i < a.rows; ++i) {
      T sum = a(i, j);
      for (int64_t k = 0; k < j; ++k)
        sum -= a(i, k) * conj(a(j, k));
      a(i, j) = sum / a(j, j);
    }
    for (int64_t k = j + 1; k < a.columns; ++k)
      a(j, k) = 0;
  }
  return true;
}

/// a becomes R; Q with all its columns.
template <typename T> Matrix<T> factorQr(Matrix<T> &a) {
  Matrix<T> q = identity<T>(a.rows);
  std::vector<T> v(static_cast<size_t>(a.rows));
  for (int64_t k = 0; k < std::min(a.rows - 1, a.columns); ++k) {
    double norm = 0;
    for (int64_t i = k; i < a.rows; ++i)
      norm = std::hypot(norm, std::abs(a(i, k)));
    if (norm == 0)
      continue;
    T phase = a(k, k) == T(0) ? T(1) : a(k, k) / std::abs(a(k, k));
    double length = 0;
    for (int64_t i = k; i < a.rows; ++i)
      v[size_t(i)] = a(i, k) / norm;
    v[size_t(k)] += phase;
    for (int64_t i = k; i < a.rows; ++i)
      length += squared(v[size_t(i)]);
    for (int64_t j = k; j < a.columns; ++j) { // a -= 2 v v* a / v*v
      T dot = 0;
      for (int64_t i = k; i < a.rows; ++i)
        dot += conj(v[size_t(i)]) * a(i, j);
      dot *= 2 / length;
      for (int64_t i = k; i < a.rows; ++i)
        a(i, j) -= dot * v[size_t(i)];
    }
    for (int64_t i = 0; i < a.rows; ++i) { // q -= 2 q v v* / v*v
      T dot = 0;
      for (int64_t j = k; j < a.rows; ++j)
        dot += q(i, j) * v[size_t(j)];
      dot *= 2 / length;
      for (int64_t j = k; j < a.rows; ++j)
        q(i, j) -= dot * conj(v[size_t(j)]);
    }
    for (int64_t i = k + 1; i < a.rows; ++i)
      a(i, k) = 0;
  }
  return q;
}

/// The rotation that makes the columns (p, q) of a Hermitian pair [[app, apq], [*, aqq]]
/// orthogonal: p' = c p - s conj(phase) q, q' = s phase p + c q.
template <typename T> struct Rotation {
  double c = 1, s = 0;
  T phase = 1;

  Rotation(double app, T apq, double aqq) {
    double off = std::abs(apq);
    if (off == 0)
      return;
    phase = apq / off;
    double tau = (aqq - app) / (2 * off);
    double t =
        std::isinf(tau) ? 0 : (tau >= 0 ? 1.0 : -1.0) / (std::fabs(tau) + std::hypot(1.0, tau));
    c = 1 / std::hypot(1.0, t);
    s = t * c;
  }
  void apply(Matrix<T> &m, int64_t p, int64_t q) const {
    for (int64_t i = 0; i < m.rows; ++i) {
      T x = m(i, p), y = m(i, q);
      m(i, p) = c * x - s * conj(phase) * y;
      m(i, q) = s * phase * x + c * y;
    }
  }
};

constexpr int kMostSweeps = 60;

/// Ascending eigenvalues and their vectors as columns; a is used up.
template <typename T> std::pair<std::vector<double>, Matrix<T>> decomposeHermitian(Matrix<T> a) {
  int64_t n = a.rows;
  Matrix<T> vectors = identity<T>(n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j)
      a(i, j) = conj(a(j, i));
  double scale = magnitude(a);
  if (std::isnan(scale))
    return {std::vector<double>(size_t(n), std::nan("")), notANumber<T>(n, n)};
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double off = 0;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q)
        off = std::max(off, std::abs(a(p, q)));
    if (!(off > scale * 1e-17))
      break;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        Rotation<T> rotation(std::real(a(p, p)), a(p, q), std::real(a(q, q)));
        rotation.apply(a, p, q);
        for (int64_t i = 0; i < n; ++i) { // the same from the left, conjugated
          T x = a(p, i), y = a(q, i);
          a(p, i) = rotation.c * x - rotation.s * rotation.phase * y;
          a(q, i) = rotation.s * conj(rotation.phase) * x + rotation.c * y;
        }
        a(p, q) = a(q, p) = 0;
        rotation.apply(vectors, p, q);
      }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return std::real(a(i, i)) < std::real(a(j, j)); });
  std::pair<std::vector<double>, Matrix<T>> result{{}, Matrix<T>(n, n)};
  for (int64_t k = 0; k < n; ++k) {
    int64_t from = order[size_t(k)];
    result.first.push_back(std::real(a(from, from)));
    for (int64_t i = 0; i < n; ++i)
      result.second(i, k) = vectors(i, from);
  }
  return result;
}

template <typename T> struct Singular {
  Matrix<T> u; // with as many columns as singular values
  std::vector<double> values;
  Matrix<T> vAdjoint;
};

/// Of a matrix with no fewer rows than columns, whose squares neither overflow nor vanish: columns
/// are rotated until they are orthogonal.
template <typename T> Singular<T> decomposeTall(Matrix<T> a) {
  int64_t n = a.columns;
  Matrix<T> v = identity<T>(n);
  for (int sweep = 0, rotated = 1; rotated && sweep < kMostSweeps; ++sweep) {
    rotated = 0;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        double pp = 0, qq = 0;
        T pq = 0;
        for (int64_t i = 0; i < a.rows; ++i) {
          pp += squared(a(i, p));
          qq += squared(a(i, q));
          pq += conj(a(i, p)) * a(i, q);
        }
        if (!(std::abs(pq) > 1e-16 * std::sqrt(pp) * std::sqrt(qq)) || pq == T(0))
          continue;
        rotated = 1;
        Rotation<T> rotation(pp, pq, qq);
        rotation.apply(a, p, q);
        rotation.apply(v, p, q);
      }
  }
  std::vector<double> norms(static_cast<size_t>(n), 0.0);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < a.rows; ++i)
      norms[size_t(j)] = std::hypot(norms[size_t(j)], std::abs(a(i, j)));
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return norms[size_t(i)] > norms[size_t(j)]; });
  Singular<T> result{Matrix<T>(a.rows, n), {}, Matrix<T>(n, n)};
  double largest = n ? norms[size_t(order[0])] : 0;
  for (int64_t k = 0; k < n; ++k) {
    int64_t from = order[size_t(k)];
    double value = norms[size_t(from)];
    result.values.push_back(value);
    for (int64_t i = 0; i < n; ++i)
      result.vAdjoint(k, i) = conj(v(i, from));
    if (value > largest * 1e-300)
      for (int64_t i = 0; i < a.rows; ++i)
        result.u(i, k) = a(i, from) / value;
  }
  return result;
}

/// Makes the columns from `begin` on orthogonal to those before and of length 1, from unit vectors.
template <typename T> void completeBasis(Matrix<T> &u, int64_t begin) {
  for (int64_t k = begin, unit = 0; k < u.columns && unit < u.rows; ++unit) {
    std::vector<T> column(static_cast<size_t>(u.rows), T(0));
    column[size_t(unit)] = 1;
    for (int pass = 0; pass < 2; ++pass) // twice is enough (Kahan and Parlett)
      for (int64_t j = 0; j < k; ++j) {
        T dot = 0;
        for (int64_t i = 0; i < u.rows; ++i)
          dot += conj(u(i, j)) * column[size_t(i)];
        for (int64_t i = 0; i < u.rows; ++i)
          column[size_t(i)] -= dot * u(i, j);
      }
    double norm = 0;
    for (const T &x : column)
      norm = std::hypot(norm, std::abs(x));
    if (norm < 0.5 / std::sqrt(double(u.rows) + 1))
      continue;
    for (int64_t i = 0; i < u.rows; ++i)
      u(i, k) = column[size_t(i)] / norm;
    ++k;
  }
}

template <typename T> Singular<T> decomposeSingular(Matrix<T> a, bool full) {
  bool isWide = a.rows < a.columns;
  int64_t kept = 0, count = std::min(a.rows, a.columns);
  double largest = magnitude(a);
  if (std::isnan(largest))
    return {notANumber<T>(a.rows, full ? a.rows : count),
            std::vector<double>(size_t(count), std::nan("")),
            notANumber<T>(full ? a.columns : count, a.columns)};
  // By a power of two, which loses nothing, to where squares are numbers.
  int exponent = largest > 0 ? std::clamp(std::ilogb(largest), -1000, 1000) : 0;
  for (T &number : a.numbers)
    number *= std::ldexp(1.0, -exponent);
  Singular<T> result = decomposeTall(isWide ? adjoint(a) : std::move(a));
  for (double &value : result.values)
    value = std::ldexp(value, exponent);
  while (kept < count && result.values[size_t(kept)] > result.values[0] * 1e-300)
    ++kept;
  Matrix<T> u(result.u.rows, full ? result.u.rows : count);
  for (int64_t i = 0; i < u.rows; ++i)
    for (int64_t j = 0; j < kept; ++j)
      u(i, j) = result.u(i, j);
  completeBasis(u, kept);
  result.u = u;
  if (!isWide)
    return result;
  Matrix<T> left = adjoint(result.vAdjoint), right = adjoint(result.u);
  return {left, result.values, right};
}

// ---- the evaluations

/// How many matrices there are, and the shape of what stands around them.
struct Stack {
  int64_t count = 1, rows = 0, columns = 0;
  Shape around;
};
Stack stackOf(Workspace &workspace, const HostTensor &x) {
  Stack stack;
  if (x.rank() < 2) {
    workspace.reject("x", "has rank " + std::to_string(x.rank()) + ", but a matrix is needed");
    return stack;
  }
  stack.around.assign(x.shape().begin(), x.shape().end() - 2);
  stack.count = *elementCount(stack.around);
  stack.rows = x.shape()[x.shape().size() - 2];
  stack.columns = x.shape().back();
  return stack;
}
Shape shapeWith(const Stack &stack, std::initializer_list<int64_t> last) {
  Shape shape = stack.around;
  shape.insert(shape.end(), last);
  return shape;
}
void requireSquare(Workspace &workspace, const Stack &stack) {
  workspace.require(stack.rows == stack.columns, "x", "is not of square matrices");
}

/// Calls `evaluate` with a number of the type that the algorithms compute in.
template <typename Evaluate> Outcome withNumbers(DataType type, Evaluate evaluate) {
  return isComplex(type) ? evaluate(Complex()) : evaluate(double());
}

Outcome evaluateInverse(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Stack stack = stackOf(workspace, x);
  requireSquare(workspace, stack);
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok())
    return workspace.status();
  return withNumbers(x.type(), [&](auto number) -> Outcome {
    using T = decltype(number);
    for (int64_t k = 0; k < stack.count; ++k) {
      Matrix<T> a = loadMatrix<T>(x, k);
      std::vector<int64_t> order;
      factorLu(a, order);
      if (isSingular(a))
        return invalidArgument("inv: the matrix is singular");
      storeNumbers(y, k, solveLu(a, order, identity<T>(a.rows)).numbers);
    }
    return workspace.finish(std::move(y));
  });
}

Outcome evaluateSolve(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "a"), &b = workspace.anyOperand(1, "b");
  Stack stack = stackOf(workspace, x), right = stackOf(workspace, b);
  requireSquare(workspace, stack);
  workspace.require(right.around == stack.around && right.rows == stack.rows &&
                        b.type() == x.type(),
                    "b", "does not fit a");
  HostTensor y = workspace.allocate(b.type(), b.shape());
  if (!workspace.ok())
    return workspace.status();
  return withNumbers(x.type(), [&](auto number) -> Outcome {
    using T = decltype(number);
    for (int64_t k = 0; k < stack.count; ++k) {
      Matrix<T> a = loadMatrix<T>(x, k);
      std::vector<int64_t> order;
      factorLu(a, order);
      if (isSingular(a))
        return invalidArgument("solve: the matrix is singular");
      storeNumbers(y, k, solveLu(a, order, loadMatrix<T>(b, k)).numbers);
    }
    return workspace.finish(std::move(y));
  });
}

/// The determinant; with `log` its direction and the logarithm of its magnitude.
template <bool Log> Outcome evaluateDeterminant(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Stack stack = stackOf(workspace, x);
  requireSquare(workspace, stack);
  HostTensor y = workspace.allocate(x.type(), stack.around);
  HostTensor magnitude = workspace.allocate(realType(x.type()), stack.around);
  if (!workspace.ok())
    return workspace.status();
  return withNumbers(x.type(), [&](auto number) -> Outcome {
    using T = decltype(number);
    for (int64_t k = 0; k < stack.count; ++k) {
      Matrix<T> a = loadMatrix<T>(x, k);
      std::vector<int64_t> order;
      T product = double(factorLu(a, order));
      double logarithm = 0;
      for (int64_t i = 0; i < a.rows; ++i) {
        double size = std::abs(a(i, i));
        product *= Log ? (size == 0 ? T(0) : a(i, i) / size) : a(i, i);
        logarithm += std::log(size);
      }
      storeNumber<T>(y, k, product);
      magnitude.setDouble(k, logarithm);
    }
    return Log ? workspace.finish(std::move(y), std::move(magnitude))
               : workspace.finish(std::move(y));
  });
}

Outcome evaluateCholesky(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Stack stack = stackOf(workspace, x);
  requireSquare(workspace, stack);
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok())
    return workspace.status();
  bool upper = invocation.attributes.integer("upper") != 0;
  return withNumbers(x.type(), [&](auto number) -> Outcome {
    using T = decltype(number);
    for (int64_t k = 0; k < stack.count; ++k) {
      Matrix<T> a = loadMatrix<T>(x, k);
      if (!factorCholesky(a))
        return invalidArgument("cholesky: the matrix is not positive definite");
      storeNumbers(y, k, upper ? adjoint(a).numbers : a.numbers);
    }
    return workspace.finish(std::move(y));
  });
}

Outcome evaluateQr(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Stack stack = stackOf(workspace, x);
  bool complete = invocation.attributes.integer("complete") != 0;
  int64_t inner = complete ? stack.rows : std::min(stack.rows, stack.columns);
  HostTensor q = workspace.allocate(x.type(), shapeWith(stack, {stack.rows, inner}));
  HostTensor r = workspace.allocate(x.type(), shapeWith(stack, {inner, stack.columns}));
  if (!workspace.ok())
    return workspace.status();
  return withNumbers(x.type(), [&](auto number) -> Outcome {
    using T = decltype(number);
    for (int64_t k = 0; k < stack.count; ++k) {
      Matrix<T> a = loadMatrix<T>(x, k), whole = factorQr(a), part(stack.rows, inner);
      for (int64_t i = 0; i < stack.rows; ++i)
        for (int64_t j = 0; j < inner; ++j)
          part(i, j) = whole(i, j);
      a.numbers.resize(size_t(inner * stack.columns));
      storeNumbers(q, k, part.numbers);
      storeNumbers(r, k, a.numbers);
    }
    return workspace.finish(std::move(q), std::move(r));
  });
}

Outcome evaluateEigh(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Stack stack = stackOf(workspace, x);
  requireSquare(workspace, stack);
  HostTensor values = workspace.allocate(realType(x.type()), shapeWith(stack, {stack.rows}));
  HostTensor vectors = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok())
    return workspace.status();
  return withNumbers(x.type(), [&](auto number) -> Outcome {
    using T = decltype(number);
    for (int64_t k = 0; k < stack.count; ++k) {
      auto [eigenvalues, basis] = decomposeHermitian(loadMatrix<T>(x, k));
      storeNumbers(values, k, eigenvalues);
      storeNumbers(vectors, k, basis.numbers);
    }
    return workspace.finish(std::move(values), std::move(vectors));
  });
}

Outcome evaluateSvd(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  Stack stack = stackOf(workspace, x);
  bool full = invocation.attributes.integer("full") != 0;
  int64_t inner = std::min(stack.rows, stack.columns);
  Shape left = shapeWith(stack, {stack.rows, full ? stack.rows : inner});
  Shape right = shapeWith(stack, {full ? stack.columns : inner, stack.columns});
  HostTensor u = workspace.allocate(x.type(), left), v = workspace.allocate(x.type(), right);
  HostTensor s = workspace.allocate(realType(x.type()), shapeWith(stack, {inner}));
  if (!workspace.ok())
    return workspace.status();
  return withNumbers(x.type(), [&](auto number) -> Outcome {
    using T = decltype(number);
    for (int64_t k = 0; k < stack.count; ++k) {
      Singular<T> result = decomposeSingular(loadMatrix<T>(x, k), full);
      storeNumbers(u, k, result.u.numbers);
      storeNumbers(s, k, result.values);
      storeNumbers(v, k, result.vAdjoint.numbers);
    }
    return workspace.finish(std::move(u), std::move(s), std::move(v));
  });
}

/// Of complex matrices [.., m, k] and [.., k, n] whose other dimensions broadcast.
Outcome evaluateProduct(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.anyOperand(0, "a"), &b = workspace.anyOperand(1, "b");
  Stack left = stackOf(workspace, a), right = stackOf(workspace, b);
  const Shape *arounds[] = {&left.around, &right.around};
  std::optional<Shape> around = broadcastShapes(arounds);
  workspace.require(around && left.columns == right.rows && a.type() == b.type(), "b",
                    "does not fit a");
  Shape shape = around.value_or(Shape{});
  Stack stack{*elementCount(shape), left.rows, right.columns, shape};
  HostTensor c = workspace.allocate(a.type(), shapeWith(stack, {left.rows, right.columns}));
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> ofA = *broadcastStrides(left.around, shape);
  std::vector<int64_t> ofB = *broadcastStrides(right.around, shape);
  int64_t number = 0;
  forEachPosition(shape, [&](const Shape &index) {
    Matrix<Complex> x = loadMatrix<Complex>(a, dot(index, ofA));
    Matrix<Complex> y = loadMatrix<Complex>(b, dot(index, ofB)), z(x.rows, y.columns);
    for (int64_t i = 0; i < x.rows; ++i)
      for (int64_t k = 0; k < x.columns; ++k)
        for (int64_t j = 0; j < y.columns; ++j)
          z(i, j) += x(i, k) * y(k, j);
    storeNumbers(c, number++, z.numbers);
  });
  return workspace.finish(std::move(c));
}

constexpr Entry kEntries[] = {
    {"cholesky", evaluateCholesky},
    {"det", evaluateDeterminant<false>},
    {"eigh", evaluateEigh},
    {"inv", evaluateInverse},
    {"matmul", evaluateProduct},
    {"qr", evaluateQr},
    {"slogdet", evaluateDeterminant<true>},
    {"solve", evaluateSolve},
    {"svd", evaluateSvd},
};

} // namespace

Evaluator linearEvaluator(std::string_view name) {
  for (const Entry &entry : kEntries)
    if (entry.name == name)
      return entry.evaluate;
  return nullptr;
}

} // namespace tensmith::eager
