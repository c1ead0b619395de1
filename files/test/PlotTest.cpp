// Breaks when two labels of a plot overlap, one leaves the picture, or a number is written with an
// exponent like 1.2e+05.
#include "files/Plot.h"

#include <gtest/gtest.h>
#include <random>
#include <regex>

namespace tensmith {
namespace {

TEST(Plot, NumbersAreReadAtAGlance) {
  EXPECT_EQ(tickText(0), "0");
  EXPECT_EQ(tickText(0.001), "0.001");
  EXPECT_EQ(tickText(0.1 + 0.2), "0.3");
  EXPECT_EQ(tickText(12), "12");
  EXPECT_EQ(tickText(-120), "-120");
  EXPECT_EQ(tickText(1000), "1,000");
  EXPECT_EQ(tickText(-1000), "-1,000");
  EXPECT_EQ(tickText(120000), "120,000");
  EXPECT_EQ(tickText(1234567), "1,234,567");
  EXPECT_EQ(tickText(1234.5), "1,234.5");
  EXPECT_EQ(tickText(1e9), "10⁹");
  EXPECT_EQ(tickText(2.5e9), "2.5·10⁹");
  EXPECT_EQ(tickText(-1e-12), "-10⁻¹²");
}

TEST(Plot, NoNumberHasAnExponentOfTheProgrammers) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponents(-30, 30);
  for (int i = 0; i < 1000; ++i) {
    std::string text = tickText(std::pow(10, exponents(random)));
    EXPECT_EQ(text.find('e'), std::string::npos) << text;
  }
}

struct Written {
  Labels::Place place;
  std::string text;
};

std::vector<Written> read(const std::string &svg) {
  std::vector<Written> all;
  std::regex element("<text x=\"([^\"]*)\" y=\"([^\"]*)\" text-anchor=\"([^\"]*)\">([^<]*)</text>");
  for (std::sregex_iterator i(svg.begin(), svg.end(), element), end; i != end; ++i) {
    auto anchor = (*i)[3] == "start" ? Labels::Anchor::Start
                  : (*i)[3] == "end" ? Labels::Anchor::End
                                     : Labels::Anchor::Middle;
    all.push_back({{std::stod((*i)[1]), std::stod((*i)[2]), anchor}, (*i)[4]});
  }
  return all;
}

TEST(Plot, LabelsNeverOverlap) {
  std::mt19937 random(2);
  auto below = [&](double limit) {
    return std::uniform_real_distribution<double>(0, limit)(random);
  };
  for (int picture = 0; picture < 50; ++picture) {
    Labels labels(400, 200);
    size_t placed = 0;
    for (int i = 0; i < 60; ++i) {
      std::vector<Labels::Place> places;
      for (int j = 0; j < 3; ++j)
        places.push_back({below(400), below(200), Labels::Anchor(random() % 3)});
      placed += labels.write(places, std::string(1 + random() % 12, 'M'));
    }
    auto all = read(labels.svg());
    ASSERT_EQ(all.size(), placed);
    EXPECT_GT(placed, 10u);
    for (size_t i = 0; i < all.size(); ++i) {
      Box box = Labels::boxOf(all[i].place, all[i].text);
      constexpr double kRounding = 0.2; // of the numbers in the picture
      EXPECT_TRUE(box.left > -kRounding && box.top > -kRounding && box.right < 400 + kRounding &&
                  box.bottom < 200 + kRounding);
      for (size_t j = 0; j < i; ++j) {
        Box other = Labels::boxOf(all[j].place, all[j].text);
        other = {other.left + kRounding, other.top + kRounding, other.right - kRounding,
                 other.bottom - kRounding};
        EXPECT_FALSE(box.overlaps(other)) << all[i].text << " " << all[j].text;
      }
    }
  }
}

TEST(Plot, WhatIsAvoidedGivesWayWhereThereIsNoOtherPlace) {
  Labels labels(100, 40);
  labels.avoid({0, 0, 100, 20});
  EXPECT_TRUE(labels.write({{0, 15}, {0, 36}}, "below"));
  EXPECT_NE(labels.svg().find("y=\"36.0\""), std::string::npos);
  EXPECT_TRUE(labels.write({{0, 15}}, "above"));
  EXPECT_FALSE(labels.write({{0, 15}, {90, 36}}, "nowhere"));
}

} // namespace
} // namespace tensmith
