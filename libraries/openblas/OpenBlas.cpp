// Products by OpenBLAS: alpha * left @ right + beta * result, in parts of its rows.
//
// What a bias, an addend or the minuend of a difference give is put into the result first, and the
// product is added to it. OpenBLAS's own threads are left alone: each part is a call by one thread
// of the session.
#include "runtime/LibraryAbi.h"

#include <algorithm>
#include <bit>
#include <cblas.h>
#include <cstdint>
#include <cstring>

namespace {

/// Operations that are worth handing to another thread.
constexpr int64_t kOperationsOfPart = 1 << 20;
/// Rows or columns of a part.
constexpr int64_t kLeastOfPart = 64;

struct Product {
  int64_t batch, rows, columns, depth;
  bool leftTransposed, rightTransposed, rightVaries;
  float alpha = 1, beta = 0;
  int begin = -1; // the step that says what the result begins with
  const float *left, *right, *first = nullptr;
  float *result;

  explicit Product(const TensmithCall &call)
      : batch(call.sizes[TENSMITH_MATMUL_BATCH]), rows(call.sizes[TENSMITH_MATMUL_ROWS]),
        columns(call.sizes[TENSMITH_MATMUL_COLUMNS]), depth(call.sizes[TENSMITH_MATMUL_DEPTH]),
        leftTransposed(call.sizes[TENSMITH_MATMUL_LEFT_TRANSPOSED]),
        rightTransposed(call.sizes[TENSMITH_MATMUL_RIGHT_TRANSPOSED]),
        rightVaries(call.sizes[TENSMITH_MATMUL_RIGHT_VARIES]),
        left(static_cast<const float *>(call.operands[0])),
        right(static_cast<const float *>(call.operands[1])) {}

  /// False where a step is none of BLAS's.
  bool read(const TensmithCall &call) {
    const int64_t *sizes = call.sizes + TENSMITH_MATMUL_STEPS;
    int operands = 2;
    for (int64_t step = 0; step < sizes[0]; ++step) {
      int64_t kind = sizes[1 + 2 * step];
      if (kind == TENSMITH_STEP_SCALE && begin < 0) {
        alpha *= float(std::bit_cast<double>(sizes[2 + 2 * step]));
        continue;
      }
      if (begin >= 0 || (kind != TENSMITH_STEP_ADD_COLUMNS && kind != TENSMITH_STEP_ADD &&
                         kind != TENSMITH_STEP_SUBTRACT_FROM && kind != TENSMITH_STEP_SUBTRACT))
        return false;
      begin = int(kind);
      beta = kind == TENSMITH_STEP_SUBTRACT ? -1 : 1;
      alpha = kind == TENSMITH_STEP_SUBTRACT_FROM ? -alpha : alpha;
      first = static_cast<const float *>(call.operands[operands++]);
    }
    result = static_cast<float *>(call.operands[operands]);
    return true;
  }

  /// Rows [from, to), and columns [left, right), of one matrix of the stack.
  void compute(int64_t matrix, int64_t from, int64_t to, int64_t firstColumn,
               int64_t lastColumn) const {
    int64_t count = to - from, wide = lastColumn - firstColumn;
    float *c = result + (matrix * rows + from) * columns + firstColumn;
    const float *initial =
        begin == TENSMITH_STEP_ADD_COLUMNS ? first + firstColumn : first + (c - result);
    int64_t stride = begin == TENSMITH_STEP_ADD_COLUMNS ? 0 : columns;
    for (int64_t row = 0; begin >= 0 && first != result && row < count; ++row)
      std::memcpy(c + row * columns, initial + row * stride, size_t(wide) * sizeof(float));
    const float *a = left + matrix * rows * depth + (leftTransposed ? from : from * depth);
    const float *b = right + (rightVaries ? matrix * depth * columns : 0) +
                     (rightTransposed ? firstColumn * depth : firstColumn);
    auto stridden = [](int64_t stride) { return blasint(std::max<int64_t>(stride, 1)); };
    cblas_sgemm(CblasRowMajor, leftTransposed ? CblasTrans : CblasNoTrans,
                rightTransposed ? CblasTrans : CblasNoTrans, blasint(count), blasint(wide),
                blasint(depth), alpha, a, stridden(leftTransposed ? rows : depth), b,
                stridden(rightTransposed ? depth : columns), beta, c, stridden(columns));
  }

  /// Rows of the whole stack.
  static void computeRows(void *closure, int64_t begin, int64_t end) {
    auto &product = *static_cast<Product *>(closure);
    while (begin < end) {
      int64_t matrix = begin / product.rows, from = begin % product.rows;
      int64_t to = std::min(product.rows, from + end - begin);
      product.compute(matrix, from, to, 0, product.columns);
      begin += to - from;
    }
  }
  static void computeColumns(void *closure, int64_t begin, int64_t end) {
    auto &product = *static_cast<Product *>(closure);
    product.compute(0, 0, product.rows, begin, end);
  }
};

} // namespace

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_matmul(const TensmithCall *call) {
  static const bool alone = (openblas_set_num_threads(1), true);
  (void)alone;
  Product product(*call);
  if (!product.read(*call))
    return call->services->fail(call, TENSMITH_FAIL_REFUSED, product.begin);
  for (int64_t size : {product.rows, product.columns, product.depth})
    if (size > INT32_MAX)
      return call->services->fail(call, TENSMITH_FAIL_REFUSED, size);
  if (product.batch * product.rows * product.columns == 0)
    return 0;
  // Each part packs its share of the other operand anew: parts are large, and of the longer side.
  bool byColumns = product.batch == 1 && product.columns > product.rows;
  int64_t across = byColumns ? product.rows : product.columns;
  int64_t grain = std::max(kOperationsOfPart / (2 * across * std::max<int64_t>(product.depth, 1)),
                           kLeastOfPart);
  call->services->parallel_for(call, byColumns ? product.columns : product.batch * product.rows,
                               grain, byColumns ? Product::computeColumns : Product::computeRows,
                               &product);
  return 0;
}
