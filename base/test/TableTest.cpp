// Rows are found by name and stand in order, and whoever reads while others add sees a whole table.
#include "base/Table.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace tensmith {
namespace {

struct Row {
  std::string_view name;
  int number = 0;
};

template <typename T> std::string namesOf(const Table<T> &table) {
  std::string names;
  for (const T *row : table.rows())
    names += std::string(row->name) + " ";
  return names;
}

constexpr Row kOwn[] = {{"first", 1}, {"second", 2}, {"all", 3}};

TEST(Table, RowsStandWhereTheyAreAsked) {
  Table<Row> table("row", {std::span<const Row>(kOwn)}, /*last=*/"all");
  static constexpr Row kBefore{"before"}, kBehind{"behind"};
  ASSERT_TRUE(table.add({{&kBefore}}, "second").ok());
  ASSERT_TRUE(table.add({{&kBehind}}).ok());
  EXPECT_EQ(namesOf(table), "first before second behind all ");
  EXPECT_EQ(table.find("second"), &kOwn[1]);
  EXPECT_EQ(table.find("behind"), &kBehind);
  EXPECT_EQ(table.find("none"), nullptr);
}

// Breaks if rows are added one by one: of two, the first would stay.
TEST(Table, AllAreAddedOrNone) {
  Table<Row> table("row", {std::span<const Row>(kOwn)});
  static constexpr Row kNew{"new"}, kTaken{"first"};
  Status status = table.add({{&kNew, &kTaken}});
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), "there is a row 'first' already");
  EXPECT_FALSE(table.add({{&kNew, &kNew}}).ok());
  EXPECT_FALSE(table.add({{&kNew}}, "nowhere").ok());
  EXPECT_EQ(namesOf(table), "first second all ");
}

// Breaks if a reader could see a table that is being changed.
TEST(Table, IsReadWhileRowsAreAdded) {
  constexpr int kRows = 200;
  static std::vector<std::string> names;
  static std::vector<Row> rows;
  for (int i = 0; i < kRows; ++i)
    names.push_back("row" + std::to_string(i));
  for (int i = 0; i < kRows; ++i)
    rows.push_back({names[size_t(i)], i});
  Table<Row> table("row");
  std::atomic<int> wrong = 0;
  std::jthread reader([&] {
    for (size_t seen = 0; seen < kRows;) {
      const auto &now = table.rows();
      wrong += now.size() < seen;
      seen = now.size();
      for (size_t i = 0; i < seen; ++i)
        wrong += now[i] != &rows[i] || table.find(names[i]) != &rows[i];
    }
  });
  for (const Row &row : rows)
    ASSERT_TRUE(table.add({{&row}}).ok());
  reader.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace tensmith
