// What a table says beside its features: queries by their text, weights, and columns that no row of
// a file has.
#include "trees/TableFile.h"

#include <gtest/gtest.h>

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
