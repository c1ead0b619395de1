// What models rely on, without another system: verification refuses each kind of broken forest,
// prediction does not depend on batches or threads, and files give back what they were made of.
#include "trees/Contributions.h"
#include "trees/Drawing.h"
#include "trees/ForestFile.h"
#include "trees/Importance.h"
#include "trees/ModelFormats.h"
#include "trees/ModelText.h"
#include "trees/Prediction.h"
#include "trees/TreeAssembly.h"
#include "trees/Verification.h"

#include "base/Hash.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tensmith::trees {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// f0 < 0.5 ? (f1 in {1, 3} ? 1 : 2) : 4, with missing values to the right and then to the left.
Forest smallForest() {
  Forest forest;
  forest.features = {{"f<0>", 0}, {"colour", 5}};
  forest.baseScores = {10};
  Tree tree;
  for (float value : {0.f, 0.f, 4.f, 1.f, 2.f})
    appendLeaf(tree, value, 1);
  tree.feature[0] = 0, tree.threshold[0] = 0.5, tree.left[0] = 1, tree.right[0] = 2;
  tree.feature[1] = 1, tree.left[1] = 3, tree.right[1] = 4, tree.missingLeft[1] = 1;
  tree.cover = {10, 6, 4, 2, 4};
  setCategories(tree, 1, {3, 1, 3});
  forest.trees = {tree};
  forest.channel = {0};
  forest.scale = {0.5};
  return forest;
}

/// Many trees on random rows.
Forest largeForest(int64_t trees, int64_t depth, int64_t features) {
  std::mt19937 draw(1);
  std::uniform_int_distribution<int32_t> feature(0, int32_t(features) - 1);
  std::normal_distribution<float> number;
  Forest forest;
  forest.features.resize(size_t(features));
  forest.baseScores = {0.5, -0.5};
  for (int64_t i = 0; i < trees; ++i) {
    Tree tree;
    appendLeaf(tree, 0, 1);
    for (int32_t node = 0; node < (1 << depth) - 1; ++node) {
      if (draw() % 8 == 0)
        continue;
      if (node > 0 && node >= tree.size())
        break;
      tree.feature[size_t(node)] = feature(draw);
      tree.threshold[size_t(node)] = number(draw);
      tree.missingLeft[size_t(node)] = draw() % 2;
      int32_t left = appendLeaf(tree, number(draw), 1);
      int32_t right = appendLeaf(tree, number(draw), 1);
      tree.left[size_t(node)] = left;
      tree.right[size_t(node)] = right;
    }
    forest.trees.push_back(std::move(tree));
    forest.channel.push_back(int32_t(i % 2));
    forest.scale.push_back(1);
  }
  return forest;
}

std::vector<float> outputsOf(const Forest &forest, const std::vector<float> &values, int threads) {
  auto predictor = Predictor::of(forest);
  EXPECT_TRUE(predictor.ok()) << predictor.status().message();
  auto columns = int64_t(forest.features.size());
  auto rows = int64_t(values.size()) / columns;
  std::vector<float> outputs(size_t(rows * forest.channels()));
  Status status =
      predictor->outputs(DenseRows{values.data(), rows, columns, columns}, outputs, threads);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

TEST(Prediction, FollowsNumbersCategoriesAndMissingValues) {
  std::vector<float> rows = {0, 1, 0, 2, 0.5, 1, kNaN, 1, 0, kNaN, 0, 5, 0, -1, 0, 3};
  std::vector<float> expected = {10.5, 11, 12, 12, 10.5, 10.5, 10.5, 10.5};
  EXPECT_EQ(outputsOf(smallForest(), rows, 1), expected); // 5 and -1 are unseen: left, by default
}

TEST(Prediction, IsTheSameInEachBatchAndWithAnyThreads) {
  Forest forest = largeForest(70, 7, 9);
  std::mt19937 draw(2);
  std::normal_distribution<float> number;
  std::vector<float> rows(size_t(1000 * 9));
  for (float &value : rows)
    value = draw() % 10 == 0 ? kNaN : number(draw);
  auto all = outputsOf(forest, rows, 1);
  EXPECT_EQ(outputsOf(forest, rows, 4), all);
  for (size_t row : {0, 17, 999}) {
    std::vector<float> one(rows.begin() + row * 9, rows.begin() + (row + 1) * 9);
    EXPECT_EQ(outputsOf(forest, one, 1),
              std::vector<float>(all.begin() + row * 2, all.begin() + row * 2 + 2));
  }
}

TEST(Prediction, RefusesRowsOfOtherSizes) {
  Forest forest = smallForest();
  auto predictor = Predictor::of(forest);
  ASSERT_TRUE(predictor.ok());
  std::vector<float> rows(6, 0), out(2);
  EXPECT_FALSE(predictor->outputs(DenseRows{rows.data(), 2, 3, 3}, out).ok());
  EXPECT_FALSE(predictor->outputs(DenseRows{rows.data(), 3, 2, 2}, out).ok());
  int64_t begins[] = {0, 2, 1};
  int32_t columns[] = {0, 7};
  float values[] = {1, 1};
  EXPECT_FALSE(predictor->outputs(SparseRows{2, 2, begins, columns, values}, out).ok());
  begins[1] = 0, begins[2] = 2;
  EXPECT_NE(
      predictor->outputs(SparseRows{2, 2, begins, columns, values}, out).message().find("column 7"),
      std::string::npos);
}

TEST(Verification, RefusesWhatPredictionWouldFollowAstray) {
  auto refused = [](auto change) {
    Forest forest = smallForest();
    change(forest, forest.trees[0]);
    return !verifyForest(forest).ok() && !Predictor::of(forest).ok();
  };
  EXPECT_TRUE(verifyForest(smallForest()).ok());
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.left[1] = 0; }));     // a circle
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.right[1] = 5; }));    // is not there
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.right[1] = 3; }));    // twice
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.left[3] = -2; }));    // no node, no leaf
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.feature[0] = 2; }));  // is not there
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.feature[0] = -5; })); //
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.threshold[0] = kNaN; }));
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.value[4] = kNaN; }));
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.cover.pop_back(); }));
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.categoryEnd[1] = 9; }));
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.categories[0] = -1; }));
  EXPECT_TRUE(refused([](Forest &forest, Tree &) { forest.channel[0] = 1; }));
  EXPECT_TRUE(refused([](Forest &forest, Tree &) { forest.scale.clear(); }));
  EXPECT_TRUE(refused([](Forest &forest, Tree &) { forest.baseScores.clear(); }));
  EXPECT_TRUE(refused([](Forest &forest, Tree &) { forest.classes = {2, 1}; }));
  EXPECT_TRUE(refused([](Forest &, Tree &tree) { tree.categoryEnd[3] = 1 << 30; })); // of a leaf
  EXPECT_TRUE(refused([](Forest &forest, Tree &) { forest.bestRound = -2; }));
  EXPECT_TRUE(refused([](Forest &forest, Tree &) { forest.bestRound = INT64_MAX; }));
  EXPECT_TRUE(refused([](Forest &forest, Tree &tree) { // two splits share a set
    forest.features[0].categories = 5;
    tree.categoryEnd[0] = tree.categoryEnd[1];
  }));
}

TEST(Prediction, TakesFewOfManyCategories) {
  Forest forest = smallForest();
  forest.features[1].categories = kMostCategories;
  setCategories(forest.trees[0], 1, {3, 16000000});
  forest.trees[0].categories.erase(forest.trees[0].categories.begin(),
                                   forest.trees[0].categories.begin() + 2);
  forest.trees[0].categoryBegin[1] = 0, forest.trees[0].categoryEnd[1] = 2;
  std::vector<float> rows = {0, 3, 0, 16000000, 0, 2, 0, 15999999, 0, kNaN};
  std::vector<float> expected = {10.5, 10.5, 11, 11, 10.5};
  EXPECT_EQ(outputsOf(forest, rows, 1), expected);
}

TEST(TreeAssembly, NextFloatAboveSendsEachFloatTheSameWay) {
  std::mt19937 draw(3);
  std::uniform_real_distribution<double> number(-2, 2);
  for (int i = 0; i < 2000; ++i) {
    double t = i % 2 ? number(draw) : double(float(number(draw)));
    auto x = float(t);
    for (float near : {std::nextafter(x, -9.f), x, std::nextafter(x, 9.f)})
      EXPECT_EQ(double(near) <= t, near < floatAbove(t)) << t;
  }
  EXPECT_EQ(floatAbove(1e300), std::numeric_limits<float>::infinity());
}

TEST(ForestFile, GivesBackEachBit) {
  for (const Forest &forest : {smallForest(), largeForest(20, 5, 4)}) {
    std::string bytes = writeForest(forest);
    auto again = parseForest(bytes);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(writeForest(*again), bytes);
    EXPECT_EQ(dumpText(*again), dumpText(forest));
  }
}

Forest namedForest() {
  Forest forest = smallForest();
  forest.features[1].levels.names = {"red", "grün", "", "blue", "b"};
  forest.features.push_back({"year", 3, false, {Levels::Kind::Whole, {"-4", "1999", "12"}}});
  forest.objective = "logistic";
  forest.classes = {0, 1};
  forest.classNames = {"no", "yes"};
  return forest;
}

TEST(ForestFile, KeepsNamesOfCategoriesAndClasses) {
  Forest forest = namedForest();
  for (FileFormat format : {FileFormat::Own, FileFormat::XgboostJson, FileFormat::XgboostUbjson}) {
    auto bytes = formatForest(forest, format);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    auto again = parseForest(*bytes);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->classNames, forest.classNames);
    for (size_t i = 0; i < forest.features.size(); ++i)
      EXPECT_EQ(again->features[i].levels, forest.features[i].levels) << int(format) << " " << i;
  }
  forest.features[1].levels.names.push_back("one more than there are");
  EXPECT_FALSE(verifyForest(forest).ok());
}

/// A file of version 1, as it was written before names were kept.
TEST(ForestFile, OfTheFirstVersionIsRead) {
  std::string bytes = writeForest(smallForest());
  uint32_t length;
  std::memcpy(&length, bytes.data() + 12, 4);
  nlohmann::json header = nlohmann::json::parse(bytes.substr(40, length));
  header.erase("class_names");
  for (nlohmann::json &feature : header["features"])
    feature.erase(3), feature.erase(3);
  std::string text = header.dump(), rest = text + bytes.substr(40 + length);
  uint32_t version = 1;
  length = uint32_t(text.size());
  Hash128 hash = hash128(rest);
  std::memcpy(bytes.data() + 8, &version, 4);
  std::memcpy(bytes.data() + 12, &length, 4);
  std::memcpy(bytes.data() + 24, &hash.high, 8);
  std::memcpy(bytes.data() + 32, &hash.low, 8);
  auto forest = readForest(bytes.substr(0, 40) + rest);
  ASSERT_TRUE(forest.ok()) << forest.status().message();
  EXPECT_EQ(forest->features[1].name, "colour");
  EXPECT_TRUE(forest->features[1].levels.names.empty() && forest->classNames.empty());
}

TEST(ForestFile, NoticesDamageAndWhatIsNewer) {
  std::string bytes = writeForest(smallForest());
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ 4);
    EXPECT_FALSE(parseForest(damaged).ok()) << at;
    EXPECT_FALSE(parseForest(bytes.substr(0, at)).ok()) << at;
  }
  bytes[8] = 9;
  EXPECT_NE(readForest(bytes).status().message().find("version 9"), std::string::npos);
}

TEST(ForestFile, OfEveryFormatThatIsWrittenPredictsTheSame) {
  Forest forest = smallForest();
  std::vector<float> rows = {0, 1, 0, 2, 0.5, 1, kNaN, 1, 0, kNaN, 0, 6, 0, 3};
  for (FileFormat format :
       {FileFormat::Own, FileFormat::XgboostJson, FileFormat::XgboostUbjson, FileFormat::Onnx}) {
    auto bytes = formatForest(forest, format);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    auto again = parseForest(*bytes);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(outputsOf(*again, rows, 1), outputsOf(forest, rows, 1)) << int(format);
  }
  EXPECT_EQ(formatForest(forest, FileFormat::Lightgbm).status().code(), StatusCode::Unsupported);
}

TEST(ForestFile, OfXgboostHasNumbersAndTextForAll) {
  Forest forest = smallForest();
  forest.features[0].name = "\xff";
  forest.trees[0].threshold[0] = std::numeric_limits<float>::infinity();
  forest.trees[0].cover[0] = std::numeric_limits<float>::infinity();
  auto bytes = formatForest(forest, FileFormat::XgboostJson);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_EQ(bytes->find("null"), std::string::npos);
  auto again = parseForest(*bytes);
  ASSERT_TRUE(again.ok()) << again.status().message();
  std::vector<float> rows = {0, 1, 1e30f, 2, kNaN, 1};
  EXPECT_EQ(outputsOf(*again, rows, 1), outputsOf(forest, rows, 1));
}

TEST(ForestFile, OfXgboostHasASetForEachSplit) {
  Forest forest = smallForest();
  forest.scale = {1}; // no DART, whose trees are elsewhere
  auto bytes = formatForest(forest, FileFormat::XgboostJson);
  ASSERT_TRUE(bytes.ok());
  Document document = *readJson(*bytes);
  Document &tree = document["learner"]["gradient_booster"]["model"]["trees"][0];
  for (const char *key : {"categories_segments", "categories_sizes"})
    tree[key].push_back(Document(tree[key][0]));
  tree["categories_nodes"].push_back(0);
  auto again = parseForest(document.dump());
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find("not there"), std::string::npos)
      << again.status().message();
}

TEST(ForestFile, RefusesToWriteHugeComplements) {
  Forest forest = smallForest();
  forest.features[1].categories = 1 << 23;
  forest.trees.resize(9, forest.trees[0]);
  forest.channel.resize(9, 0);
  forest.scale.resize(9, 1);
  for (FileFormat format : {FileFormat::XgboostJson, FileFormat::Onnx})
    EXPECT_EQ(formatForest(forest, format).status().code(), StatusCode::ResourceExhausted);
}

/// Each number of the arrays is set to others, and the file's hash is right.
TEST(ForestFile, OfAnyNumbersIsRefusedOrUsable) {
  std::mt19937 draw(4);
  const int32_t odd[] = {-1, -2, 0, 1, 2, 3, 4, 5, 6, 1 << 24, 1 << 30, INT32_MIN, INT32_MAX};
  int64_t taken = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    Forest forest = smallForest();
    Tree &tree = forest.trees[0];
    auto number = [&] { return odd[draw() % std::size(odd)]; };
    for (int change = 1 + int(draw() % 2); change > 0; --change) {
      std::vector<int32_t> *integers[] = {&tree.feature,       &tree.left,        &tree.right,
                                          &tree.categoryBegin, &tree.categoryEnd, &tree.categories};
      std::vector<float> *floats[] = {&tree.threshold, &tree.value, &tree.gain, &tree.cover};
      switch (draw() % 4) {
      case 0:
        forest.features[draw() % 2].categories = number();
        break;
      case 1:
        forest.bestRound = int64_t(number()) << (draw() % 33);
        break;
      case 2: {
        auto &array = *floats[draw() % std::size(floats)];
        array[draw() % array.size()] = std::bit_cast<float>(uint32_t(draw()));
        break;
      }
      default:
        auto &array = *integers[draw() % std::size(integers)];
        array[draw() % array.size()] = number();
      }
    }
    auto again = parseForest(writeForest(forest));
    if (!again.ok())
      continue;
    ++taken;
    std::vector<float> rows = {0, 1, kNaN, 3, -1, 1e9f}, out(9);
    outputsOf(*again, rows, 1);
    (void)contributions(*again, {rows.data(), 3, 2, 2}, out);
    EXPECT_FALSE(dumpText(*again).empty());
    EXPECT_EQ(importances(*again, Importance::Gain).size(), 2u);
    EXPECT_TRUE(treeSvg(*again, 0).ok());
    for (FileFormat format : {FileFormat::XgboostJson, FileFormat::Onnx})
      (void)formatForest(*again, format);
  }
  EXPECT_GT(taken, 100);
}

/// The header is damaged, and the file's hash is right.
TEST(ForestFile, OfAnyHeaderIsRefusedOrUsable) {
  constexpr size_t kPrefix = 40, kHash = 24;
  std::mt19937 draw(5);
  const std::string whole = writeForest(smallForest());
  uint32_t length = 0;
  std::memcpy(&length, whole.data() + 12, sizeof length);
  int64_t refused = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    std::string bytes = whole;
    for (int change = 1 + int(draw() % 3); change > 0; --change) {
      char &at = bytes[kPrefix + draw() % length];
      at = "0123456789-.,[]{}\"e"[draw() % 19];
    }
    Hash128 hash = hash128(std::string_view(bytes).substr(kPrefix));
    std::memcpy(bytes.data() + kHash, &hash.high, sizeof hash.high);
    std::memcpy(bytes.data() + kHash + 8, &hash.low, sizeof hash.low);
    auto forest = parseForest(bytes);
    refused += !forest.ok();
    if (forest.ok())
      EXPECT_FALSE(dumpText(*forest).empty());
    else
      EXPECT_EQ(forest.status().message().find("its hash"), std::string::npos);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

/// The same by its definition: over all orders of the features.
TEST(Contributions, AreTheMeansOverAllOrders) {
  Forest forest = smallForest();
  std::vector<float> row = {0, 2}, out(3);
  ASSERT_TRUE(contributions(forest, {row.data(), 1, 2, 2}, out).ok());
  // Values of the sets {}, {0}, {1}, {0, 1}, by covers 6 : 4 and 2 : 4.
  double none = 0.6 * (1 * 2. / 6 + 2 * 4. / 6) + 0.4 * 4, first = 1 * 2. / 6 + 2 * 4. / 6;
  double second = 0.6 * 2 + 0.4 * 4, both = 2;
  EXPECT_NEAR(out[0], 0.5 * ((first - none) + (both - second)) / 2, 1e-6);
  EXPECT_NEAR(out[1], 0.5 * ((second - none) + (both - first)) / 2, 1e-6);
  EXPECT_NEAR(out[2], 10 + 0.5 * none, 1e-6);
  forest.trees[0].cover.assign(5, 0);
  EXPECT_EQ(contributions(forest, {row.data(), 1, 2, 2}, out).code(), StatusCode::Unsupported);
}

TEST(Drawing, EscapesNames) {
  auto svg = treeSvg(smallForest(), 0);
  ASSERT_TRUE(svg.ok());
  EXPECT_EQ(svg->find("f<0>"), std::string::npos);
  EXPECT_NE(svg->find("f&lt;0&gt;"), std::string::npos);
  EXPECT_FALSE(treeSvg(smallForest(), 1).ok());
}

} // namespace
} // namespace tensmith::trees
