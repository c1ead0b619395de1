// Hints for shapes that don't fit: one where a single change would mend it, none elsewhere.
#include "base/ShapeHints.h"

#include <gtest/gtest.h>

using namespace tensmith;

namespace {

using Sizes = std::vector<int64_t>;

std::string hint(const Sizes &expected, const Sizes &given) { return shapeHint(expected, given); }

TEST(ShapeHints, PicturesWithTheirChannelsAtTheOtherEnd) {
  EXPECT_NE(hint({1, 3, 224, 224}, {1, 224, 224, 3}).find("transpose it to 1x3x224x224"),
            std::string::npos);
  EXPECT_NE(hint({kOpenSize, 224, 224, 3}, {8, 3, 224, 224}).find("transpose it to 8x224x224x3"),
            std::string::npos);
  EXPECT_NE(hint({3, 32, 64}, {32, 64, 3}).find("transpose it to 3x32x64"), std::string::npos);
}

TEST(ShapeHints, SamplesWithoutTheirBatch) {
  EXPECT_NE(hint({1, 3, 8, 8}, {3, 8, 8}).find("dimension of 1 in front"), std::string::npos);
  EXPECT_NE(hint({kOpenSize, 5}, {5}).find("dimension of 1 in front"), std::string::npos);
  EXPECT_NE(hint({5}, {1, 5}).find("leave out"), std::string::npos);
}

TEST(ShapeHints, OtherSizes) {
  EXPECT_NE(hint({1, 3, 224, 224}, {1, 3, 256, 192}).find("resize it to 1x3x224x224"),
            std::string::npos);
  EXPECT_NE(hint({1, 224, 224, 3}, {1, 256, 256, 3}).find("resize it to 1x224x224x3"),
            std::string::npos);
  EXPECT_NE(hint({1, 10}, {8, 10}).find("1 at a time"), std::string::npos);
}

TEST(ShapeHints, NothingIsSaidWhereNoSingleChangeWouldDo) {
  EXPECT_EQ(hint({1, 3, 224, 224}, {5, 4, 7, 9}), "");
  EXPECT_EQ(hint({4}, {5}), "");
  EXPECT_EQ(hint({}, {5}), "");
  EXPECT_EQ(hint({1, 2}, {}), "");
  EXPECT_EQ(hint({kOpenSize, kOpenSize}, {3, 4}), ""); // it fits, and something else is wrong
  EXPECT_EQ(hint({kOpenSize, 4, 4}, {7, 4, 4}), "");
}

} // namespace
