// A call of TENSMITH_MATMUL by libraries that compute c = alpha * a @ b + beta * c: what steps make
// of alpha, beta and c, and parts of rows or columns for the session's threads.
//
// What a bias, an addend or the minuend of a difference give is put into the result first, and the
// product is added to it.
#pragma once

#include "runtime/LibraryAbi.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace tensmith::libraries {

/// Row by row, as C has matrices: element (i, j) of c lies at c[i * strideOfC + j]. Of a transposed
/// operand, element (i, j) lies at [j * stride + i].
struct Product {
  int64_t rows, columns, depth;
  bool leftTransposed, rightTransposed;
  const float *a, *b;
  float *c;
  int64_t strideOfA, strideOfB, strideOfC;
  float alpha, beta; // beta: 0 (c is only written), 1 or -1
};
using Multiply = void (*)(const Product &);

class ProductCall {
public:
  ProductCall(const TensmithCall &call, Multiply multiply)
      : multiply_(multiply), batch_(call.sizes[TENSMITH_MATMUL_BATCH]),
        rows_(call.sizes[TENSMITH_MATMUL_ROWS]), columns_(call.sizes[TENSMITH_MATMUL_COLUMNS]),
        depth_(call.sizes[TENSMITH_MATMUL_DEPTH]),
        leftTransposed_(call.sizes[TENSMITH_MATMUL_LEFT_TRANSPOSED]),
        rightTransposed_(call.sizes[TENSMITH_MATMUL_RIGHT_TRANSPOSED]),
        rightVaries_(call.sizes[TENSMITH_MATMUL_RIGHT_VARIES]),
        left_(static_cast<const float *>(call.operands[0])),
        right_(static_cast<const float *>(call.operands[1])) {}

  int32_t run(const TensmithCall &call) {
    if (!read(call))
      return call.services->fail(&call, TENSMITH_FAIL_REFUSED, begin_);
    // Libraries count in 32 bits.
    for (int64_t size : {rows_, columns_, depth_})
      if (size > INT32_MAX)
        return call.services->fail(&call, TENSMITH_FAIL_REFUSED, size);
    if (batch_ * rows_ * columns_ == 0)
      return 0;
    // Each part packs its share of the other operand anew: parts are large, and of the longer side.
    bool byColumns = batch_ == 1 && columns_ > rows_;
    int64_t across = byColumns ? rows_ : columns_;
    int64_t grain =
        std::max(kOperationsOfPart / (2 * across * std::max<int64_t>(depth_, 1)), kLeastOfPart);
    call.services->parallel_for(&call, byColumns ? columns_ : batch_ * rows_, grain,
                                byColumns ? computeColumns : computeRows, this);
    return 0;
  }

private:
  static constexpr int64_t kOperationsOfPart = 1 << 20; // worth handing to another thread
  static constexpr int64_t kLeastOfPart = 64;           // rows or columns

  /// False where a step is none of theirs.
  bool read(const TensmithCall &call) {
    const int64_t *sizes = call.sizes + TENSMITH_MATMUL_STEPS;
    int operands = 2;
    for (int64_t step = 0; step < sizes[0]; ++step) {
      int64_t kind = sizes[1 + 2 * step];
      if (kind == TENSMITH_STEP_SCALE && begin_ < 0) {
        alpha_ *= float(std::bit_cast<double>(sizes[2 + 2 * step]));
        continue;
      }
      if (begin_ >= 0 || (kind != TENSMITH_STEP_ADD_COLUMNS && kind != TENSMITH_STEP_ADD &&
                          kind != TENSMITH_STEP_SUBTRACT_FROM && kind != TENSMITH_STEP_SUBTRACT))
        return false;
      begin_ = int(kind);
      beta_ = kind == TENSMITH_STEP_SUBTRACT ? -1 : 1;
      alpha_ = kind == TENSMITH_STEP_SUBTRACT_FROM ? -alpha_ : alpha_;
      first_ = static_cast<const float *>(call.operands[operands++]);
    }
    result_ = static_cast<float *>(call.operands[operands]);
    return true;
  }

  /// Rows [from, to), and columns [firstColumn, endColumn), of one matrix of the stack.
  void compute(int64_t matrix, int64_t from, int64_t to, int64_t firstColumn,
               int64_t endColumn) const {
    int64_t count = to - from, wide = endColumn - firstColumn;
    float *c = result_ + (matrix * rows_ + from) * columns_ + firstColumn;
    const float *initial =
        begin_ == TENSMITH_STEP_ADD_COLUMNS ? first_ + firstColumn : first_ + (c - result_);
    int64_t stride = begin_ == TENSMITH_STEP_ADD_COLUMNS ? 0 : columns_;
    for (int64_t row = 0; begin_ >= 0 && first_ != result_ && row < count; ++row)
      std::memcpy(c + row * columns_, initial + row * stride, size_t(wide) * sizeof(float));
    const float *a = left_ + matrix * rows_ * depth_ + (leftTransposed_ ? from : from * depth_);
    const float *b = right_ + (rightVaries_ ? matrix * depth_ * columns_ : 0) +
                     (rightTransposed_ ? firstColumn * depth_ : firstColumn);
    multiply_({count, wide, depth_, leftTransposed_, rightTransposed_, a, b, c,
               leftTransposed_ ? rows_ : depth_, rightTransposed_ ? depth_ : columns_, columns_,
               alpha_, beta_});
  }

  /// Rows of the whole stack.
  static void computeRows(void *closure, int64_t begin, int64_t end) {
    auto &own = *static_cast<ProductCall *>(closure);
    while (begin < end) {
      int64_t matrix = begin / own.rows_, from = begin % own.rows_;
      int64_t to = std::min(own.rows_, from + end - begin);
      own.compute(matrix, from, to, 0, own.columns_);
      begin += to - from;
    }
  }
  static void computeColumns(void *closure, int64_t begin, int64_t end) {
    auto &own = *static_cast<ProductCall *>(closure);
    own.compute(0, 0, own.rows_, begin, end);
  }

  Multiply multiply_;
  int64_t batch_, rows_, columns_, depth_;
  bool leftTransposed_, rightTransposed_, rightVaries_;
  float alpha_ = 1, beta_ = 0;
  int begin_ = -1; // the step that says what the result begins with
  const float *left_, *right_, *first_ = nullptr;
  float *result_ = nullptr;
};

} // namespace tensmith::libraries
