// Products by OpenBLAS. Its own threads are left alone: each part is a call by one thread of the
// session.
#include "libraries/Product.h"

#include <cblas.h>

namespace {

using tensmith::libraries::Product;

CBLAS_TRANSPOSE turned(bool isTransposed) { return isTransposed ? CblasTrans : CblasNoTrans; }

/// Of an empty matrix, too.
blasint stride(int64_t number) { return blasint(std::max<int64_t>(number, 1)); }

void multiply(const Product &p) {
  cblas_sgemm(CblasRowMajor, turned(p.leftTransposed), turned(p.rightTransposed), blasint(p.rows),
              blasint(p.columns), blasint(p.depth), p.alpha, p.a, stride(p.strideOfA), p.b,
              stride(p.strideOfB), p.beta, p.c, stride(p.strideOfC));
}

} // namespace

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_matmul(const TensmithCall *call) {
  static const bool alone = (openblas_set_num_threads(1), true);
  (void)alone;
  return tensmith::libraries::ProductCall(*call, multiply).run(*call);
}
