// Operands for the reference evaluator's tests that are written as formulas or lists, and
// comparison of results.
#pragma once

#include "reference/Transforms.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tensmith::reference {

using Integers = std::vector<int64_t>;
using Reals = std::vector<double>;
using Names = std::vector<std::string>;
using AttributeList = std::vector<std::pair<std::string, Attribute>>;

/// Distinct small eighths, of both signs, that are exact in every float type of 16 bits or more.
inline HostTensor ramp(Shape shape, int64_t seed) {
  HostTensor tensor(DataType::F32, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setDouble(i, double((i * 37 + seed * 11) % 23 - 11) / 8);
  return tensor;
}

inline HostTensor positive(Shape shape, int64_t seed) {
  HostTensor tensor = ramp(std::move(shape), seed);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setDouble(i, std::abs(tensor.getDouble(i)) + 0.125);
  return tensor;
}

inline HostTensor floats(Shape shape, const std::vector<float> &values) {
  return HostTensor::of<float>(DataType::F32, std::move(shape), values);
}

inline HostTensor integers(DataType type, Shape shape, const Integers &values) {
  HostTensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setInt(i, values[size_t(i)]);
  return tensor;
}

using ResultTypes = std::vector<ResultType>;

inline Result<std::vector<HostTensor>> outcome(const std::string &name,
                                               const std::vector<HostTensor> &operands,
                                               const AttributeList &list,
                                               const ResultTypes &results = {}) {
  Attributes attributes;
  for (const auto &[key, value] : list)
    attributes.set(key, value);
  return evaluateAll({name, attributes, operands, results});
}

inline std::vector<HostTensor> evaluated(const std::string &name,
                                         const std::vector<HostTensor> &operands,
                                         const AttributeList &list, const ResultTypes &types = {}) {
  auto results = outcome(name, operands, list, types);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results ? *results : std::vector<HostTensor>();
}

/// That evaluation fails with `code` and a message that has `words` in it.
inline void expectFailure(const std::string &name, const std::vector<HostTensor> &operands,
                          const AttributeList &list, StatusCode code, const std::string &words,
                          const ResultTypes &types = {}) {
  auto results = outcome(name, operands, list, types);
  ASSERT_FALSE(results.ok()) << name;
  EXPECT_EQ(results.status().code(), code) << results.status().message();
  EXPECT_NE(results.status().message().find(words), std::string::npos)
      << results.status().message();
}

inline void expectNear(const std::vector<HostTensor> &results, size_t index, const Shape &shape,
                       const std::vector<double> &values) {
  ASSERT_LT(index, results.size());
  const HostTensor &result = results[index];
  ASSERT_EQ(result.shape(), shape);
  for (int64_t i = 0; i < result.size(); ++i) {
    const double expected = values[size_t(i)], got = result.getDouble(i);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got)) << "at " << i << ": " << got;
    else if (std::isinf(expected))
      EXPECT_EQ(got, expected) << "at " << i;
    else
      EXPECT_NEAR(got, expected, 1e-5 + 1e-4 * std::abs(expected)) << "at " << i;
  }
}

/// One result, of exactly these elements.
inline void expectIntegers(const std::vector<HostTensor> &results, size_t index, DataType type,
                           const Shape &shape, const Integers &values) {
  ASSERT_LT(index, results.size());
  const HostTensor &result = results[index];
  EXPECT_EQ(result.type(), type);
  ASSERT_EQ(result.shape(), shape);
  for (int64_t i = 0; i < result.size(); ++i)
    EXPECT_EQ(result.getInt(i), values[size_t(i)]) << "at " << i;
}

inline void expectStrings(const std::vector<HostTensor> &results, size_t index, const Shape &shape,
                          const Names &values) {
  ASSERT_LT(index, results.size());
  ASSERT_EQ(results[index].type(), DataType::String);
  ASSERT_EQ(results[index].shape(), shape);
  for (int64_t i = 0; i < results[index].size(); ++i)
    EXPECT_EQ(results[index].getString(i), values[size_t(i)]) << "at " << i;
}

} // namespace tensmith::reference
