// What a table says beside its features: queries by their text, weights, and columns that no row of
// a file has.
#include "trees/TableFile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace tensmith::trees {
namespace {

std::string written(const std::string &name, const std::string &text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(TableFile, QueriesPastWhatF32CountsStayApart) {
  std::string path = written("queries.csv", "a,query,y\n"
                                            "1,16777216,0\n2,16777216,1\n3,16777217,0\n");
  TableOptions options;
  options.group = "query";
  auto table = readTable(path, options);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->matrix.groups, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(table->matrix.columns, 1);
}

TEST(TableFile, WeightsAreNumbers) {
  std::string path = written("weights.csv", "a,w,y\n1,heavy,0\n2,light,1\n");
  TableOptions options;
  options.weight = "w";
  EXPECT_NE(readTable(path, options).status().message().find("weights are numbers"),
            std::string::npos);
}

// Fails where the other table's own order of texts counts, or an unknown text takes a known one's
// number.
TEST(TableFile, TextsTakeTheNumbersOfAListThatIsKnown) {
  TableOptions options;
  options.categorical = {"colour"};
  auto first = readTable(written("colours.csv", "colour,y\nred,0\nblue,1\nNA,0\n"), options);
  ASSERT_TRUE(first.ok()) << first.status().message();
  Feature feature = first->matrix.features[0];
  EXPECT_EQ(feature.levels.names, (std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(feature.categories, 2);
  EXPECT_TRUE(std::isnan(first->matrix.dense[2]));

  options.like = &first->matrix.features;
  std::string path = written("others.csv", "colour,y\nred,0\namber,1\n7,1\nblue,0\n");
  auto other = readTable(path, options);
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ(other->matrix.dense[0], 1);
  EXPECT_TRUE(std::isnan(other->matrix.dense[1]) && std::isnan(other->matrix.dense[2]));
  EXPECT_EQ(other->matrix.dense[3], 0);
  EXPECT_EQ(other->matrix.features[0].levels, feature.levels);

  options.addsLevels = true;
  auto more = readTable(path, options);
  ASSERT_TRUE(more.ok()) << more.status().message();
  EXPECT_EQ(more->matrix.features[0].levels.names,
            (std::vector<std::string>{"blue", "red", "amber", "7"}));
  EXPECT_EQ(more->matrix.dense[1], 2);
}

TEST(TableFile, NumbersTakeTheirPlacesInAListThatIsKnown) {
  std::vector<Feature> known{{"year", 2, false, {Levels::Kind::Whole, {"1999", "2001"}}}};
  TableOptions options;
  options.like = &known;
  auto table = readTable(written("years.csv", "year,y\n2001,0\n2000,1\n1999,1\n"), options);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->matrix.dense[0], 1);
  EXPECT_TRUE(std::isnan(table->matrix.dense[1]));
  EXPECT_EQ(table->matrix.dense[2], 0);
}

// Breaks if columns are taken by their places, or the target is the last column whatever its name.
TEST(TableFile, ColumnsAreTakenByTheNamesOfTraining) {
  auto first = readTable(written("train.csv", "a,b,price\n1,2,3\n"), TableOptions());
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->target, "price");
  TableOptions options;
  options.target = first->target;
  options.like = &first->matrix.features;
  auto other = readTable(written("valid.csv", "price,remark,b,a\n30,40,20,10\n"), options);
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ(other->matrix.columns, 2);
  EXPECT_EQ(other->matrix.dense[0], 10);
  EXPECT_EQ(other->matrix.dense[1], 20);
  EXPECT_EQ(other->matrix.labels, std::vector<float>{30});
  auto none = readTable(written("none.csv", "price,b\n1,2\n"), options);
  EXPECT_NE(none.status().message().find("has no column 'a'"), std::string::npos);
}

TEST(TableFile, LibsvmHasTheColumnsOfTraining) {
  std::string path = written("valid.libsvm", "1 0:2\n0 3:1\n");
  TableOptions options;
  options.leastColumns = 9;
  auto table = readTable(path, options);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->matrix.columns, 9);
  options.leastColumns = 2;
  EXPECT_EQ(readTable(path, options)->matrix.columns, 4);
}

} // namespace
} // namespace tensmith::trees
