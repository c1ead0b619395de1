// Products by libxsmm, which compiles code for small matrices of given sizes when they are first
// seen: c += a @ b, all of them as they lie, by columns.
//
// A matrix by rows is its transposition by columns, so that c' = b' @ a' is what it is asked for.
// A large product is a sum of small ones, whose three sides are at most a block's: blocks of an
// operand that is transposed, and of a left one that is to be scaled, are copied first.
#include "libraries/Product.h"

#include <array>
#include <libxsmm.h>

namespace {

using tensmith::libraries::Product;

/// Sides of a block, in elements: code for c of 64 by 48 keeps its sums in registers, and blocks of
/// a and b lie in the nearest two caches.
constexpr int64_t kColumns = 64, kRows = 48, kDepth = 256;

/// A block of a row-major operand that is multiplied: as it lies, or a copy.
struct Block {
  const float *data;
  int64_t stride;
};

/// Rows [row, row + rows) and columns [column, column + columns) of an operand.
Block blockOf(const float *operand, int64_t stride, bool isTransposed, float factor, int64_t row,
              int64_t column, int64_t rows, int64_t columns, float *copy) {
  const float *first = operand + (isTransposed ? column * stride + row : row * stride + column);
  if (!isTransposed && factor == 1)
    return {first, stride};
  int64_t down = isTransposed ? 1 : stride, across = isTransposed ? stride : 1;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      copy[i * columns + j] = factor * first[i * down + j * across];
  return {copy, columns};
}

/// What the result holds before anything is added to it: c, -c or zeros.
void begin(const Product &p) {
  for (int64_t row = 0; row < p.rows && p.beta != 1; ++row)
    for (int64_t column = 0; column < p.columns; ++column) {
      float &c = p.c[row * p.strideOfC + column];
      c = p.beta == 0 ? 0 : -c;
    }
}

/// Where libxsmm has no code: on machines that it doesn't know.
void addByLoops(const Block &a, const Block &b, float *c, int64_t strideOfC, int64_t rows,
                int64_t columns, int64_t depth) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t j = 0; j < columns; ++j)
        c[i * strideOfC + j] += a.data[i * a.stride + k] * b.data[k * b.stride + j];
}

void add(const Block &a, const Block &b, float *c, int64_t strideOfC, int64_t rows, int64_t columns,
         int64_t depth) {
  auto strideOfA = libxsmm_blasint(a.stride), strideOfB = libxsmm_blasint(b.stride),
       strideOfResult = libxsmm_blasint(strideOfC);
  const float one = 1;
  const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  libxsmm_smmfunction code =
      libxsmm_smmdispatch(libxsmm_blasint(columns), libxsmm_blasint(rows), libxsmm_blasint(depth),
                          &strideOfB, &strideOfA, &strideOfResult, &one, &one, &flags, &prefetch);
  if (code)
    code(b.data, a.data, c);
  else
    addByLoops(a, b, c, strideOfC, rows, columns, depth);
}

void multiply(const Product &p) {
  thread_local std::array<float, size_t(kRows * kDepth)> copyOfA;
  thread_local std::array<float, size_t(kDepth * kColumns)> copyOfB;
  begin(p);
  // Each block of b is copied once, and a's as often as b has blocks of columns.
  for (int64_t k = 0; k < p.depth; k += kDepth)
    for (int64_t column = 0; column < p.columns; column += kColumns) {
      int64_t depth = std::min(kDepth, p.depth - k), wide = std::min(kColumns, p.columns - column);
      Block b =
          blockOf(p.b, p.strideOfB, p.rightTransposed, 1, k, column, depth, wide, copyOfB.data());
      for (int64_t row = 0; row < p.rows; row += kRows) {
        int64_t high = std::min(kRows, p.rows - row);
        Block a = blockOf(p.a, p.strideOfA, p.leftTransposed, p.alpha, row, k, high, depth,
                          copyOfA.data());
        add(a, b, p.c + row * p.strideOfC + column, p.strideOfC, high, wide, depth);
      }
    }
}

} // namespace

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_matmul(const TensmithCall *call) {
  return tensmith::libraries::ProductCall(*call, multiply).run(*call);
}
