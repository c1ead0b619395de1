// Minimal filtering against the plain sum.
#include "base/ToomCook.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace tensmith;

namespace {

std::vector<double> times(const std::vector<double> &matrix, const std::vector<double> &vector) {
  std::vector<double> product(matrix.size() / vector.size());
  for (size_t i = 0; i < product.size(); ++i)
    for (size_t j = 0; j < vector.size(); ++j)
      product[i] += matrix[i * vector.size() + j] * vector[j];
  return product;
}

/// What the matrices make of fixed data, and the plain sum.
struct Filtered {
  std::vector<double> y, sums;
};
Filtered filtered(const ToomCook &matrices) {
  std::vector<double> data, weights;
  for (int64_t i = 0; i < matrices.size; ++i)
    data.push_back(double((i * 7 + 3) % 11) - 5);
  for (int64_t i = 0; i < matrices.taps; ++i)
    weights.push_back(double((i * 5 + 1) % 7) - 3);
  std::vector<double> d = times(matrices.input, data), g = times(matrices.weights, weights);
  for (size_t i = 0; i < d.size(); ++i)
    d[i] *= g[i];
  Filtered result{times(matrices.output, d), {}};
  for (int64_t i = 0; i < matrices.outputs; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < matrices.taps; ++k)
      sum += data[size_t(i + k)] * weights[size_t(k)];
    result.sums.push_back(sum);
  }
  return result;
}

TEST(ToomCook, FiltersLikeTheSum) {
  int sizes = 0;
  for (int64_t outputs = 1; outputs <= 8; ++outputs)
    for (int64_t taps = 1; taps <= 8; ++taps) {
      if (!hasToomCook(outputs, taps))
        continue;
      ++sizes;
      Filtered result = filtered(toomCook(outputs, taps));
      for (size_t i = 0; i < result.sums.size(); ++i)
        EXPECT_NEAR(result.y[i], result.sums[i], 1e-9) << outputs << " outputs of " << taps;
    }
  EXPECT_EQ(sizes, 36) << "all with at most 7 finite points";
  EXPECT_FALSE(hasToomCook(8, 2));
  EXPECT_FALSE(hasToomCook(0, 3));
}

// Breaks if a factor is no whole number, is left out of one frequency, or is told wrong.
TEST(ToomCook, WholeMatricesAreExact) {
  int sizes = 0;
  for (int64_t outputs = 1; outputs <= 6; ++outputs)
    for (int64_t taps = 1; taps <= 6; ++taps) {
      if (!hasWholeToomCook(outputs, taps))
        continue;
      ++sizes;
      ToomCook matrices = wholeToomCook(outputs, taps);
      for (const auto *matrix : {&matrices.input, &matrices.weights, &matrices.output})
        for (double factor : *matrix)
          EXPECT_EQ(factor, std::round(factor));
      Filtered result = filtered(matrices);
      for (size_t i = 0; i < result.sums.size(); ++i)
        EXPECT_EQ(result.y[i], result.sums[i] * double(matrices.factor));
    }
  EXPECT_EQ(sizes, 21) << "all with at most 5 finite points";
  ToomCook of4 = wholeToomCook(4, 3);
  EXPECT_EQ(of4.factor, 24);
  EXPECT_EQ(growth(of4.input, of4.size), 10);
  EXPECT_EQ(growth(of4.weights, of4.size), 12);
}

// Breaks if the inverse has fewer than 32 bits, or sums are lost that wrapped on the way.
TEST(ToomCook, FactorsAreTakenOffWrappedNumbers) {
  for (int64_t factor : {1, 2, 6, 24, 120}) {
    Unscaling off = unscaling(factor);
    int32_t most = int32_t(std::numeric_limits<int32_t>::max() >> off.twos);
    for (int32_t sum : {0, 1, -1, 1234567, -7654321, most, -most - 1}) {
      uint32_t wrapped = uint32_t(int64_t(sum) * factor * factor);
      if (sum > most || sum < -most - 1)
        continue;
      EXPECT_EQ(int32_t(wrapped * off.inverse) >> off.twos, sum) << "times " << factor;
    }
  }
}

} // namespace
