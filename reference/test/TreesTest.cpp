// The packed form of forests: that it is followed as it says, and that one which can't be followed
// is found out before code trusts it.
#include "reference/Trees.h"
#include "reference/test/Expectations.h"

#include <bit>

namespace tensmith::reference {
namespace {

constexpr int64_t kColumnBits = 2;

/// Two columns; node 0 tests column 1 against 0.5 and leads to the leaves 1 (weight 10) and 2 (20).
struct Stump {
  Integers nodes;
  Integers trees{0, 0};
  int64_t depth = 1;

  Stump() {
    put(0.5f, {false, false, 1, 1});
    put(10, {false, false, 2, 0});
    put(20, {false, false, 2, 0});
  }
  void put(float number, TreeNode node) {
    nodes.push_back(std::bit_cast<int32_t>(number));
    nodes.push_back(int64_t(node.word(kColumnBits)));
  }
  void replace(int64_t at, TreeNode node) {
    nodes[size_t(2 * at + 1)] = int64_t(node.word(kColumnBits));
  }
  PackedForest forest() const {
    return {integers(DataType::I32, {2}, {0, 2}),
            integers(DataType::I32, {int64_t(nodes.size()) / 2, 2}, nodes),
            integers(DataType::I32, {int64_t(trees.size()) / 2, 2}, trees),
            {},
            1,
            kColumnBits,
            depth};
  }
  Result<std::vector<HostTensor>> predict(const HostTensor &x, bool isStrict = false) const {
    PackedForest packed = forest();
    return outcome("tree_ensemble", {x, packed.columns, packed.nodes, packed.trees, HostTensor()},
                   {{"targets", int64_t(1)},
                    {"column_bits", kColumnBits},
                    {"depth", depth},
                    {"strict", isStrict}});
  }
};

std::vector<float> predicted(const Stump &stump, const std::vector<float> &column,
                             bool isStrict = false) {
  HostTensor x(DataType::F32, {int64_t(column.size()), 3});
  for (size_t i = 0; i < column.size(); ++i)
    x.setDouble(int64_t(3 * i + 2), double(column[i]));
  auto y = stump.predict(x, isStrict);
  EXPECT_TRUE(y.ok()) << y.status().message();
  std::vector<float> values;
  for (int64_t i = 0; y.ok() && i < (*y)[0].size(); ++i)
    values.push_back(float((*y)[0].getDouble(i)));
  return values;
}

TEST(Trees, FollowTheirTests) {
  Stump stump;
  std::vector<float> x{0, 0.5f, 1, NAN, -INFINITY};
  EXPECT_EQ(predicted(stump, x), (std::vector<float>{10, 10, 20, 20, 10}));
  EXPECT_EQ(predicted(stump, x, true), (std::vector<float>{10, 20, 20, 20, 10}));
  stump.replace(0, {true, false, 1, 1});
  EXPECT_EQ(predicted(stump, x), (std::vector<float>{10, 10, 20, 10, 10}));
  stump.replace(0, {false, true, 1, 1});
  EXPECT_EQ(predicted(stump, x), (std::vector<float>{20, 10, 20, 20, 20}));
}

TEST(Trees, RefusesForestsThatLeadAstray) {
  EXPECT_TRUE(checkForest(Stump().forest()).ok());
  auto said = [](auto change) {
    Stump stump;
    change(stump);
    Status status = checkForest(stump.forest());
    HostTensor x(DataType::F32, {1, 3});
    EXPECT_FALSE(status.ok());
    (void)stump.predict(x); // gives something or an error, and reads nothing outside
    return status.message();
  };
  auto has = [](const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(said([](Stump &s) { s.replace(0, {false, false, 1, 2}); }), "node 0"));
  EXPECT_TRUE(has(said([](Stump &s) { s.replace(0, {false, false, 2, 1}); }), "node 0"));
  EXPECT_TRUE(has(said([](Stump &s) { s.replace(1, {false, false, 1, 1}); }), "node 1"));
  EXPECT_TRUE(has(said([](Stump &s) { s.replace(1, {false, false, 0, 0}); }), "leaf 1"));
  EXPECT_TRUE(has(said([](Stump &s) { s.replace(2, {false, false, 2, 1 << 20}); }), "node 2"));
  EXPECT_TRUE(has(said([](Stump &s) { s.depth = 0; }), "longer than"));
  EXPECT_TRUE(has(said([](Stump &s) { s.trees = {3, 0}; }), "tree 0"));
  EXPECT_TRUE(has(said([](Stump &s) { s.trees = {0, 1}; }), "tree 0"));
  EXPECT_TRUE(
      has(said([](Stump &s) { s.nodes[2] = std::bit_cast<int32_t>(-INFINITY); }), "leaf 1"));
}

} // namespace
} // namespace tensmith::reference
