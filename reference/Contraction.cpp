// Reference evaluation of sums of products over a shared dimension: matmul, einsum, det.
//
// Operands are widened once (floats to double, integers to 64 bits, where wrapping at the end is
// wrapping at each step), and the loops run over contiguous rows, since whole models are evaluated
// here as an oracle.
#include "reference/Workspace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace tensmith::reference {

namespace {

DataType accumulatedType(const Invocation &invocation, DataType type) {
  return invocation.attributes.integer("accumulate_i32") && !isFloat(type) ? DataType::I32 : type;
}

// ---- matmul
// ---------------------------------------------------------------------------------------------

/// c[m, n] += a[m, k] * b[k, n], all row-major: by panels of b's columns that stay in the cache.
template <typename T>
void multiplyMatrices(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kPanel = 256;
  for (int64_t low = 0; low < n; low += kPanel) {
    const int64_t width = std::min(kPanel, n - low);
    for (int64_t i = 0; i < m; ++i) {
      T *row = c + i * n + low;
      for (int64_t p = 0; p < k; ++p) {
        const T scale = a[i * k + p];
        const T *line = b + p * n + low;
        for (int64_t j = 0; j < width; ++j)
          row[j] = multiplyAdd(scale, line[j], row[j]);
      }
    }
  }
}

struct MatMulShape {
  int64_t m = 1, n = 1, k = 1;
  Shape batch;
  Shape result;
  std::vector<int64_t> aStrides, bStrides; // in matrices
};

Shape leadingDimensions(const HostTensor &tensor) {
  const Shape &shape = tensor.shape();
  return shape.size() > 2 ? Shape(shape.begin(), shape.end() - 2) : Shape();
}

MatMulShape matMulShape(Workspace &workspace, const HostTensor &a, const HostTensor &b) {
  MatMulShape s;
  workspace.require(a.rank() >= 1, "a", "is a scalar");
  workspace.require(b.rank() >= 1, "b", "is a scalar");
  if (!workspace.ok())
    return s;
  s.k = a.shape().back();
  s.m = a.rank() > 1 ? a.shape()[size_t(a.rank() - 2)] : 1;
  s.n = b.rank() > 1 ? b.shape().back() : 1;
  if (s.k != b.shape()[size_t(std::max<int64_t>(b.rank() - 2, 0))])
    workspace.reject("b", "has shape " + toString(b.shape()) + ", which doesn't fit a's " +
                              toString(a.shape()));
  Shape aBatch = leadingDimensions(a), bBatch = leadingDimensions(b);
  s.batch = aBatch.size() > bBatch.size() ? aBatch : bBatch;
  const Shape &shorter = aBatch.size() > bBatch.size() ? bBatch : aBatch;
  for (size_t i = 1; i <= shorter.size(); ++i)
    if (int64_t &size = s.batch[s.batch.size() - i]; size == 1)
      size = shorter[shorter.size() - i];
  auto aStrides = broadcastStrides(aBatch, s.batch), bStrides = broadcastStrides(bBatch, s.batch);
  if (!aStrides || !bStrides) {
    workspace.reject("b", "has leading dimensions that can't be broadcast to those of a");
    return s;
  }
  s.aStrides = *aStrides;
  s.bStrides = *bStrides;
  s.result = s.batch;
  if (a.rank() > 1)
    s.result.push_back(s.m);
  if (b.rank() > 1)
    s.result.push_back(s.n);
  return s;
}

template <typename T>
Outcome matMulIn(Workspace &workspace, const HostTensor &a, const HostTensor &b,
                 const MatMulShape &s, DataType type) {
  std::span<T> left = workspace.widen<T>(a), right = workspace.widen<T>(b);
  std::span<T> product = workspace.zeros<T>(s.result);
  if (!workspace.ok())
    return workspace.status();
  T *c = product.data();
  if (!product.empty())
    forEachPosition(s.batch, [&](const Shape &index) {
      multiplyMatrices(left.data() + dot(index, s.aStrides) * s.m * s.k,
                       right.data() + dot(index, s.bStrides) * s.k * s.n, c, s.m, s.n, s.k);
      c += s.m * s.n;
    });
  return workspace.finish(workspace.narrow<T>(product, type, s.result));
}

Outcome evaluateMatMul(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &a = workspace.operand(0, "a"), &b = workspace.operand(1, "b");
  MatMulShape shape = matMulShape(workspace, a, b);
  if (!workspace.ok())
    return workspace.status();
  const DataType type = accumulatedType(invocation, a.type());
  return withWideType(
      a.type(), [&](auto wide) { return matMulIn<decltype(wide)>(workspace, a, b, shape, type); });
}

// ---- einsum
// ---------------------------------------------------------------------------------------------

// A subscript is a letter's code, or kEllipsis + i for the i-th dimension from the right of an
// ellipsis.
constexpr int kEllipsis = 256;
using Subscripts = std::vector<int>;

struct Equation {
  std::vector<Subscripts> inputs;
  Subscripts output;
  Subscripts summed;
};

/// One term; -1 stands for an ellipsis not yet expanded. False where it isn't well formed.
bool parseTerm(std::string_view text, Subscripts &term) {
  bool ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      term.push_back(text[i]);
    } else if (text.substr(i, 3) == "..." && !ellipsis) {
      ellipsis = true;
      term.push_back(-1);
      i += 2;
    } else {
      return false;
    }
  }
  return true;
}

void expandEllipsis(Subscripts &term, int64_t dimensions) {
  auto place = std::ranges::find(term, -1);
  if (place == term.end())
    return;
  place = term.erase(place);
  Subscripts expanded;
  for (int64_t i = dimensions - 1; i >= 0; --i)
    expanded.push_back(kEllipsis + int(i));
  term.insert(place, expanded.begin(), expanded.end());
}

/// NumPy's implicit output: the ellipsis, then the letters that occur once, in order of their
/// codes.
Subscripts implicitOutput(const std::vector<Subscripts> &inputs, int64_t ellipsis) {
  std::array<int, kEllipsis> uses{};
  for (const Subscripts &term : inputs)
    for (int label : term)
      if (label < kEllipsis)
        ++uses[size_t(label)];
  Subscripts output{-1};
  expandEllipsis(output, ellipsis);
  for (int label = 0; label < kEllipsis; ++label)
    if (uses[size_t(label)] == 1)
      output.push_back(label);
  return output;
}

/// The equation's inputs with each ellipsis expanded to the dimensions that its operand has beyond
/// the letters.
int64_t expandInputs(Workspace &workspace, Equation &equation) {
  int64_t widest = 0;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    Subscripts &term = equation.inputs[i];
    const bool ellipsis = std::ranges::count(term, -1) != 0;
    const int64_t letters = int64_t(term.size()) - ellipsis;
    const int64_t rest = workspace.operand(i, "inputs").rank() - letters;
    if (rest < 0 || (rest > 0 && !ellipsis))
      workspace.reject("inputs", "at " + std::to_string(i) + " has " +
                                     std::to_string(rest + letters) +
                                     " dimensions, which the equation doesn't fit");
    if (!workspace.ok())
      return 0;
    expandEllipsis(term, rest);
    widest = std::max(widest, rest);
  }
  return widest;
}

/// A result has each of its subscripts once, and all dimensions of the ellipsis.
void checkOutput(Workspace &workspace, const Equation &equation, int64_t ellipsis) {
  for (int label : equation.output)
    if (std::ranges::count(equation.output, label) > 1)
      workspace.rejectAttribute("equation", "has a subscript twice in the result");
  if (ellipsis > 0 && std::ranges::count(equation.output, kEllipsis) == 0)
    workspace.rejectAttribute("equation", "leaves the dimensions of '...' out of the result");
}

void collectSummed(Equation &equation) {
  for (const Subscripts &term : equation.inputs)
    for (int label : term)
      if (std::ranges::count(equation.output, label) == 0 &&
          std::ranges::count(equation.summed, label) == 0)
        equation.summed.push_back(label);
}

Equation parseEquation(Workspace &workspace, const Invocation &invocation) {
  std::string text = invocation.attributes.string("equation");
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)); });
  const size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  Equation equation;
  bool wellFormed = true;
  for (size_t start = 0; start <= left.size();) {
    const size_t comma = std::min(left.find(',', start), left.size());
    wellFormed &= parseTerm(left.substr(start, comma - start), equation.inputs.emplace_back());
    start = comma + 1;
  }
  if (arrow != std::string::npos)
    wellFormed &= parseTerm(std::string_view(text).substr(arrow + 2), equation.output);
  if (!wellFormed || equation.inputs.size() != invocation.operands.size())
    workspace.rejectAttribute("equation", "'" + text + "' doesn't describe " +
                                              std::to_string(invocation.operands.size()) +
                                              " operands");
  if (!workspace.ok())
    return equation;
  const int64_t ellipsis = expandInputs(workspace, equation);
  if (arrow == std::string::npos)
    equation.output = implicitOutput(equation.inputs, ellipsis);
  else
    expandEllipsis(equation.output, ellipsis);
  checkOutput(workspace, equation, ellipsis);
  collectSummed(equation);
  return equation;
}

int64_t sizeOf(Workspace &workspace, const Invocation &invocation, const Equation &equation,
               int label) {
  int64_t size = -1;
  for (size_t i = 0; i < equation.inputs.size(); ++i)
    for (size_t axis = 0; axis < equation.inputs[i].size(); ++axis) {
      if (equation.inputs[i][axis] != label)
        continue;
      const int64_t here = invocation.operands[i].shape()[axis];
      if (size != -1 && size != 1 && here != 1 && size != here)
        workspace.reject("inputs",
                         "at " + std::to_string(i) + " disagrees on the size of a subscript");
      size = size == -1 || size == 1 ? here : size;
    }
  if (size == -1)
    workspace.rejectAttribute("equation", "has a result subscript that no operand has");
  return size;
}

/// How far operand `term` of `shape` moves in memory when the subscript advances (a diagonal adds
/// up).
int64_t strideOf(const Subscripts &term, const Shape &shape, int label) {
  int64_t stride = 0;
  for (size_t axis = 0; axis < term.size(); ++axis)
    if (term[axis] == label && shape[axis] != 1)
      stride += extent(shape, axis + 1, shape.size());
  return stride;
}

/// An operand of an einsum, and how it moves with the result's and with the summed subscripts.
template <typename T> struct Factor {
  std::span<T> values;
  std::vector<int64_t> outer, inner;
  int64_t last = 0; // with the last summed subscript, which `inner` leaves out
  const T *base = nullptr;
  const T *row = nullptr;
};

/// The sum over `count` positions of the last summed subscript.
template <typename T> T sumOfProducts(std::span<const Factor<T>> factors, int64_t count, T sum) {
  for (int64_t k = 0; k < count; ++k) {
    T product = 1;
    for (const Factor<T> &factor : factors)
      product = multiplyAdd(product, factor.row[k * factor.last], T(0));
    sum = multiplyAdd(product, T(1), sum);
  }
  return sum;
}

template <typename T>
Outcome einsumIn(Workspace &workspace, const Invocation &invocation, const Equation &equation,
                 const Shape &outer, Shape inner) {
  std::vector<Factor<T>> factors(equation.inputs.size());
  for (size_t i = 0; i < factors.size(); ++i) {
    const HostTensor &operand = invocation.operands[i];
    factors[i].values = workspace.widen<T>(operand);
    for (int label : equation.output)
      factors[i].outer.push_back(strideOf(equation.inputs[i], operand.shape(), label));
    for (int label : equation.summed)
      factors[i].inner.push_back(strideOf(equation.inputs[i], operand.shape(), label));
    if (!inner.empty()) {
      factors[i].last = factors[i].inner.back();
      factors[i].inner.pop_back();
    }
  }
  int64_t count = 1;
  if (!inner.empty()) {
    count = inner.back();
    inner.pop_back();
  }
  std::span<T> result = workspace.zeros<T>(outer);
  if (!workspace.ok())
    return workspace.status();
  size_t next = 0;
  forEachPosition(outer, [&](const Shape &at) {
    T sum = 0;
    for (Factor<T> &factor : factors)
      factor.base = factor.values.data() + dot(at, factor.outer);
    forEachPosition(inner, [&](const Shape &within) {
      for (Factor<T> &factor : factors)
        factor.row = factor.base + dot(within, factor.inner);
      sum = sumOfProducts<T>(factors, count, sum);
    });
    result[next++] = sum;
  });
  return workspace.finish(workspace.narrow<T>(result, invocation.operands[0].type(), outer));
}

Outcome evaluateEinsum(const Invocation &invocation) {
  Workspace workspace(invocation);
  Equation equation = parseEquation(workspace, invocation);
  if (!workspace.ok())
    return workspace.status();
  Shape outer, inner;
  for (int label : equation.output)
    outer.push_back(sizeOf(workspace, invocation, equation, label));
  for (int label : equation.summed)
    inner.push_back(sizeOf(workspace, invocation, equation, label));
  if (!workspace.ok())
    return workspace.status();
  return withWideType(invocation.operands[0].type(), [&](auto wide) {
    return einsumIn<decltype(wide)>(workspace, invocation, equation, outer, inner);
  });
}

// ---- det
// ------------------------------------------------------------------------------------------------

/// By Gaussian elimination with partial pivoting, in place.
double determinant(double *matrix, int64_t n) {
  double product = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::abs(matrix[row * n + column]) > std::abs(matrix[pivot * n + column]))
        pivot = row;
    if (matrix[pivot * n + column] == 0)
      return 0;
    if (pivot != column) {
      std::swap_ranges(matrix + pivot * n, matrix + (pivot + 1) * n, matrix + column * n);
      product = -product;
    }
    product *= matrix[column * n + column];
    for (int64_t row = column + 1; row < n; ++row) {
      const double factor = matrix[row * n + column] / matrix[column * n + column];
      for (int64_t k = column; k < n; ++k)
        matrix[row * n + k] -= factor * matrix[column * n + k];
    }
  }
  return product;
}

Outcome evaluateDet(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  const int64_t rank = x.rank();
  workspace.require(rank >= 2 && x.shape()[size_t(rank - 1)] == x.shape()[size_t(rank - 2)], "x",
                    "must be a stack of square matrices");
  if (!workspace.ok())
    return workspace.status();
  std::span<double> matrices = workspace.widen<double>(x);
  Shape shape = leadingDimensions(x);
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  const int64_t n = x.shape().back();
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = determinant(matrices.data() + int64_t(i) * n * n, n);
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

constexpr Entry kEntries[] = {
    {"matmul", evaluateMatMul}, {"einsum", evaluateEinsum}, {"det", evaluateDet}};

} // namespace

std::span<const Entry> contractionEntries() { return kEntries; }

} // namespace tensmith::reference
