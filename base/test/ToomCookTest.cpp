// Minimal filtering against the plain sum.
#include "base/ToomCook.h"

#include <gtest/gtest.h>

using namespace tensmith;

namespace {

std::vector<double> times(const std::vector<double> &matrix, const std::vector<double> &vector) {
  std::vector<double> product(matrix.size() / vector.size());
  for (size_t i = 0; i < product.size(); ++i)
    for (size_t j = 0; j < vector.size(); ++j)
      product[i] += matrix[i * vector.size() + j] * vector[j];
  return product;
}

TEST(ToomCook, FiltersLikeTheSum) {
  int sizes = 0;
  for (int64_t outputs = 1; outputs <= 8; ++outputs)
    for (int64_t taps = 1; taps <= 8; ++taps) {
      if (!hasToomCook(outputs, taps))
        continue;
      ++sizes;
      ToomCook matrices = toomCook(outputs, taps);
      std::vector<double> data, weights;
      for (int64_t i = 0; i < matrices.size; ++i)
        data.push_back(double((i * 7 + 3) % 11) - 5);
      for (int64_t i = 0; i < taps; ++i)
        weights.push_back(double((i * 5 + 1) % 7) - 3);
      std::vector<double> d = times(matrices.input, data), g = times(matrices.weights, weights);
      for (size_t i = 0; i < d.size(); ++i)
        d[i] *= g[i];
      std::vector<double> y = times(matrices.output, d);
      for (int64_t i = 0; i < outputs; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < taps; ++k)
          sum += data[size_t(i + k)] * weights[size_t(k)];
        EXPECT_NEAR(y[size_t(i)], sum, 1e-9) << outputs << " outputs of " << taps << " taps";
      }
    }
  EXPECT_EQ(sizes, 36) << "all with at most 7 finite points";
  EXPECT_FALSE(hasToomCook(8, 2));
  EXPECT_FALSE(hasToomCook(0, 3));
}

} // namespace
