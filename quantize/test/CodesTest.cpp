// Codes, ranges and rounding against what they are defined by: a search over all codes, sorted
// values, matrices multiplied out.
#include "quantize/Rounding.h"
#include "quantize/Settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tensmith::quantize {
namespace {

std::vector<float> normal(std::mt19937 &random, size_t count) {
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  std::ranges::generate(values, [&] { return draw(random); });
  return values;
}

std::vector<Format> formats() {
  std::vector<Format> all;
  for (int bits = 1; bits <= 8; ++bits)
    for (bool isSigned : {false, true})
      for (bool isSymmetric : {false, true})
        for (bool hasPower : {false, true})
          all.push_back({Storage::Integer, bits, isSigned, isSymmetric, hasPower});
  all.push_back({Storage::NormalFloat4, 4});
  return all;
}

int codesOf(const Format &format) {
  return format.isInteger() ? format.highest() - format.lowest() + 1 : 16;
}

// Breaks if a value becomes any other than the code that is nearest to it.
TEST(Codes, AreTheNearest) {
  std::mt19937 random(1);
  for (const Format &format : formats()) {
    Step step = stepFor(format, -1.5, 2.25, 0.8);
    for (float value : normal(random, 200)) {
      float found = std::abs(value - rounded(format, step, value));
      int low = format.isInteger() ? format.lowest() : 0;
      for (int i = 0; i < codesOf(format); ++i) {
        if (format.isBipolar() && low + i == 0)
          continue; // zero is no code of theirs
        float error = std::abs(value - decode(format, step, float(low + i)));
        EXPECT_LE(found, error * (1 + 1e-5f)) << format.text() << " " << value << " " << low + i;
      }
    }
  }
}

// Breaks if zero, which padding is, isn't exact, or the ends of a range are far beyond the codes.
TEST(Codes, HaveZeroAndReachTheRange) {
  for (const Format &format : formats())
    for (auto [low, high] : {std::pair(-1.0, 3.0), {0.0, 0.7}, {-5.0, -1.0}, {0.0, 0.0}}) {
      if (format.isBipolar())
        continue;
      Step step = stepFor(format, low, high, 1);
      EXPECT_EQ(rounded(format, step, 0), 0) << format.text();
      if (format.isInteger() && format.bits > 1)
        for (double end : {low, high})
          EXPECT_LE(std::abs(rounded(format, step, float(end)) - end), step.scale * 1.01)
              << format.text() << " " << end;
    }
}

// Breaks if bins are lost or moved where the histogram grows, or ends aren't what occurred.
TEST(Ranges, ArePercentilesOfTheValues) {
  std::mt19937 random(2);
  Histogram histogram;
  std::vector<float> all;
  for (float scale : {0.01f, 1.0f, 30.0f, 3.0f}) {
    std::vector<float> values = normal(random, 20000);
    for (float &value : values)
      value *= scale;
    all.insert(all.end(), values.begin(), values.end());
    histogram.add(values);
  }
  EXPECT_EQ(histogram.low(), *std::ranges::min_element(all));
  EXPECT_EQ(histogram.high(), *std::ranges::max_element(all));
  std::ranges::sort(all);
  Format format{Storage::Integer, 8, false, false};
  Step step = histogram.step(format, {RangeRule::Percentile, 98});
  double low = all[all.size() / 100], high = all[all.size() - all.size() / 100];
  EXPECT_NEAR(step.scale * 255, high - low, 0.2);
}

// Breaks if a search ends at a range that errs more than the whole one.
TEST(Ranges, ThatAreSearchedErrLess) {
  std::mt19937 random(3);
  std::vector<float> values = normal(random, 50000);
  for (size_t i = 0; i < 20; ++i)
    values[i] *= 20; // outliers
  Histogram histogram;
  histogram.add(values);
  auto error = [&](const Format &format, RangeRule rule) {
    Step step = histogram.step(format, {rule});
    double sum = 0;
    for (float value : values)
      sum += std::pow(double(value) - double(rounded(format, step, value)), 2);
    return sum;
  };
  for (const Format &format : formats()) {
    if (format.isBipolar() || !format.isInteger() || format.bits > 6 || format.bits < 2)
      continue;
    double whole = error(format, RangeRule::MinMax);
    EXPECT_LE(error(format, RangeRule::MeanSquare), whole) << format.text();
    EXPECT_LE(error(format, RangeRule::Entropy), whole * 1.05) << format.text();
  }
}

// Breaks if NaN or infinity ends in a range.
TEST(Ranges, LeaveOutWhatIsNotFinite) {
  Histogram histogram;
  histogram.add(std::vector<float>{1, std::nanf(""), -std::numeric_limits<float>::infinity(), -2});
  EXPECT_EQ(histogram.notFinite(), 2u);
  EXPECT_EQ(histogram.low(), -2);
  EXPECT_EQ(histogram.high(), 1);
  EXPECT_EQ(Histogram().step({}, {}).scale, 1);
}

Moments momentsOf(std::mt19937 &random, int64_t size) {
  std::vector<float> mix = normal(random, size_t(size * size));
  Moments moments(size_t(size * size), 0);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      for (int64_t k = 0; k < size; ++k)
        moments[size_t(i * size + j)] +=
            double(mix[size_t(k * size + i)]) * double(mix[size_t(k * size + j)]);
  return moments;
}

// Breaks if the factor isn't one of the inverse.
TEST(Gptq, FactorsTheInverse) {
  std::mt19937 random(4);
  for (int64_t n : {1, 2, 7, 24}) {
    Moments a = momentsOf(random, n), factor;
    for (int64_t i = 0; i < n; ++i)
      a[size_t(i * n + i)] += 1;
    factor = a;
    ASSERT_TRUE(inverseFactor(factor, n));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0; // (U^T U A)[i, j]
        for (int64_t k = 0; k < n; ++k)
          for (int64_t l = 0; l <= std::min(i, k); ++l)
            sum += factor[size_t(l * n + i)] * factor[size_t(l * n + k)] * a[size_t(k * n + j)];
        EXPECT_NEAR(sum, i == j, 1e-8);
      }
  }
  std::vector<double> none = {1, 2, 2, 1};
  EXPECT_FALSE(inverseFactor(none, 2));
}

// Breaks if errors are passed on with the wrong sign, to the wrong weights, or not at all.
TEST(Gptq, ErrsLessThanTheNearestCodes) {
  std::mt19937 random(5);
  for (int bits : {2, 3, 4, 8})
    for (auto granularity : {Granularity::Tensor, Granularity::Channel, Granularity::Group}) {
      Format format{Storage::Integer, bits, true, true, false, granularity, 16};
      Matrix weights{6, 40, normal(random, 240)};
      Moments moments = momentsOf(random, 40);
      auto gptq = roundGptq(weights, format, false, moments);
      ASSERT_TRUE(gptq.ok());
      double nearest =
          outputError(weights, roundNearest(weights, format, false).decoded(), moments);
      EXPECT_LT(outputError(weights, gptq->decoded(), moments), 0.8 * nearest) << format.text();
    }
}

// Breaks if inputs that have nothing to do with one another change codes.
TEST(Gptq, IsTheNearestOfIndependentInputs) {
  std::mt19937 random(6);
  Format format{Storage::Integer, 4, true, true, false, Granularity::Channel};
  Matrix weights{3, 20, normal(random, 60)};
  Moments moments(400, 0);
  for (size_t i = 0; i < 20; ++i)
    moments[i * 21] = 1 + double(i);
  auto gptq = roundGptq(weights, format, false, moments);
  ASSERT_TRUE(gptq.ok());
  EXPECT_EQ(gptq->codes, roundNearest(weights, format, false).codes);
}

// Breaks if a pattern means other texts than those with anything for its stars.
TEST(Settings, PatternsHaveStars) {
  EXPECT_TRUE(fitsPattern("a*c", "abbc"));
  EXPECT_TRUE(fitsPattern("*", ""));
  EXPECT_TRUE(fitsPattern("/a/[0]*", "/a/[0]/b"));
  EXPECT_TRUE(fitsPattern("*b*b", "abab"));
  EXPECT_FALSE(fitsPattern("a*c", "abcb"));
  EXPECT_FALSE(fitsPattern("abc", "ab"));
  EXPECT_FALSE(fitsPattern("", "a"));
}

// Breaks if any text ends in something else than settings or words.
TEST(Settings, OfAnyTextAreRefusedInWords) {
  std::string good = R"({"weights": {"bits": 4, "per": 32}, "keep": ["a"], "rules": [{"nodes": "b",
    "activations": "uint8"}], "calibration": "mse", "smooth": 0.5, "size": 1000})";
  ASSERT_TRUE(parseSettings(good).ok());
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    for (int j = 0; j < 3; ++j)
      bad[random() % bad.size()] = "{}[]\":,0123456789abz \xff"[random() % 22];
    if (auto settings = parseSettings(bad); !settings.ok())
      EXPECT_FALSE(settings.status().message().empty());
  }
}

} // namespace
} // namespace tensmith::quantize
