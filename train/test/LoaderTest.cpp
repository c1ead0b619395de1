// Which samples come when, and as what: by the seed and the epoch alone.
#include "TestFiles.h"

#include "train/Loader.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace tensmith::train {
namespace {

HostTensor counting(DataType type, Shape shape) {
  HostTensor tensor(type, shape);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setDouble(i, double(i));
  return tensor;
}

/// `rows` pictures of 1 x 4 x 3, whose elements count on.
Dataset pictures(int64_t rows) {
  Dataset data = {"data", rows, {}, 1, {}};
  data.columns.push_back(arrayColumn("images", counting(DataType::U8, {rows, 4, 3})));
  data.columns.push_back(arrayColumn("labels", counting(DataType::U8, {rows})));
  return data;
}

const std::vector<FeedPort> kPorts = {{"image", DataType::F32, {1, 4, 3}},
                                      {"target", DataType::I64, {}}};

std::vector<Feed> feedsOf(const Dataset &data, const Normalisation &normalisation = {1, {}, {}}) {
  return bindFeeds(data, kPorts, "target", "", normalisation);
}

TEST(Order, IsAPermutationOfSeedAndEpochAlone) {
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  auto order = orderOf(all, true, 7, 3);
  EXPECT_EQ(order, orderOf(all, true, 7, 3));
  EXPECT_NE(order, orderOf(all, true, 7, 4));
  EXPECT_NE(order, orderOf(all, true, 8, 3));
  EXPECT_EQ(orderOf(all, false, 7, 3), all);
  std::ranges::sort(order);
  EXPECT_EQ(order, all);
}

/// Every sample is as likely at every place: over 3,000 permutations of 6, each of the 36 counts is
/// within 5 deviations of 500.
TEST(Order, IsUniform) {
  int counts[6][6] = {};
  for (uint32_t epoch = 0; epoch < 3000; ++epoch) {
    auto order = permutation(6, 1, Stream::Order, epoch);
    for (int i = 0; i < 6; ++i)
      ++counts[i][order[size_t(i)]];
  }
  for (auto &row : counts)
    for (int count : row)
      EXPECT_NEAR(count, 500, 5 * 20.4);
}

TEST(Order, SplitsEachSampleOnce) {
  Split parts = split(100, 0.2, 5);
  EXPECT_EQ(parts.validation.size(), 20u);
  std::set<int64_t> all(parts.train.begin(), parts.train.end());
  all.insert(parts.validation.begin(), parts.validation.end());
  EXPECT_EQ(all.size(), 100u);
}

TEST(Feed, NormalisesInputsAndNotTargets) {
  Dataset data = pictures(3);
  auto feeds = feedsOf(data, {2, {1}, {4}});
  Batch batch = makeBatch(feeds, 2);
  std::vector<int64_t> rows = {2, 0};
  fillBatch(feeds, rows, -1, batch);
  EXPECT_EQ(batch.tensors[0].as<float>()[0], (24 * 2 - 1) / 4.f);
  EXPECT_EQ(batch.tensors[0].as<float>()[12 + 5], (5 * 2 - 1) / 4.f);
  EXPECT_EQ(batch.tensors[1].as<int64_t>()[0], 2);
}

/// A shifted picture shows zeros where there is none; a mirrored one is a mirrored one.
TEST(Feed, AugmentsBySampleAndEpoch) {
  Dataset data = pictures(8);
  auto plain = feedsOf(data), moved = feedsOf(data);
  moved[0].augment({1, true, 5});
  std::vector<int64_t> rows(8);
  std::iota(rows.begin(), rows.end(), 0);
  Batch whole = makeBatch(plain, 8), batch = makeBatch(moved, 8), again = makeBatch(moved, 8);
  fillBatch(plain, rows, 0, whole);
  std::set<std::tuple<int, int, bool>> seen;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    fillBatch(moved, rows, epoch, batch);
    fillBatch(moved, rows, epoch, again);
    EXPECT_EQ(std::memcmp(batch.tensors[0].data(), again.tensors[0].data(), 8 * 12 * 4), 0);
    for (int64_t row = 0; row < 8; ++row) {
      const float *from = whole.tensors[0].as<float>() + row * 12;
      const float *to = batch.tensors[0].as<float>() + row * 12;
      int matches = 0;
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
          for (bool mirrored : {false, true}) {
            bool same = true;
            for (int y = 0; y < 4; ++y)
              for (int x = 0; x < 3; ++x) {
                int fromY = y + dy, fromX = (mirrored ? 2 - x : x) + dx;
                bool inside = fromY >= 0 && fromY < 4 && fromX >= 0 && fromX < 3;
                same &= to[y * 3 + x] == (inside ? from[fromY * 3 + fromX] : 0);
              }
            if (same && ++matches)
              seen.insert({dy, dx, mirrored});
          }
      EXPECT_GE(matches, 1) << "epoch " << epoch << ", sample " << row;
    }
  }
  EXPECT_EQ(seen.size(), 18u); // every shift, each way round
}

TEST(Feed, PutsChannelsWhereTheInputHasThem) {
  class Pixels : public Column {
  public:
    Pixels() : Column("images", DataType::U8, {1, 2, 3}) { channelsLast = true; }
    void read(int64_t, std::byte *into) const override {
      for (int i = 0; i < 6; ++i)
        into[i] = std::byte(i);
    }
  };
  Feed feed({"x", DataType::F32, {3, 1, 2}}, {std::make_shared<Pixels>()}, false,
            {1, {0, 0, 100}, {1, 2, 1}}, "data");
  std::vector<float> made(6);
  std::vector<int64_t> rows = {0};
  feed.fill(rows, -1, reinterpret_cast<std::byte *>(made.data()));
  EXPECT_EQ(made, (std::vector<float>{0, 3, 0.5, 2, -98, -95}));
}

TEST(Feed, RefusesWhatDoesNotFit) {
  Dataset data = pictures(3);
  std::vector<FeedPort> wide = {{"image", DataType::F32, {3, 4, 3}}, kPorts[1]};
  EXPECT_HAS(refusal([&] { bindFeeds(data, wide, "target", "", {}); }),
             "'images' has u8 4x3 for a sample, but the model's 'image' takes f32 3x4x3");
  EXPECT_HAS(refusal([&] { bindFeeds(data, kPorts, "target", "lables", {}); }),
             "did you mean 'labels'?");
  EXPECT_HAS(refusal([&] { feedsOf(data, {1, {1, 2}, {}}); }), "has 1 channels");
  auto feeds = feedsOf(data);
  feeds[1].limitClasses(2);
  Batch batch = makeBatch(feeds, 3);
  std::vector<int64_t> rows = {0, 1, 2};
  EXPECT_HAS(refusal([&] { fillBatch(feeds, rows, -1, batch); }),
             "sample 2 has the class 2, but the model tells 2 apart");
}

/// As an integer NaN would be some class, and 0.5 the first.
TEST(Feed, RefusesFloatsThatAreNoClasses) {
  for (double value : {double(NAN), double(INFINITY), 0.5}) {
    HostTensor labels = counting(DataType::F32, {3});
    labels.setDouble(1, value);
    Dataset data = pictures(3);
    data.columns[1] = arrayColumn("labels", labels);
    auto feeds = feedsOf(data);
    feeds[1].limitClasses(3);
    Batch batch = makeBatch(feeds, 2);
    std::vector<int64_t> good = {0, 2}, bad = {2, 1};
    fillBatch(feeds, good, -1, batch);
    EXPECT_HAS(refusal([&] { fillBatch(feeds, bad, -1, batch); }),
               "sample 1 (counted from 0) has " + std::string(std::isnan(value) ? "nan" : "") +
                   (std::isnan(value) ? " in 'labels', which is the number of no class" : ""));
  }
}

/// Samples of every rank, each element of them.
TEST(Feed, ConvertsWholeSamples) {
  for (const Shape &shape : {Shape{}, {5}, {2, 3}, {2, 3, 2}, {2, 1, 3, 2}})
    for (DataType from : {DataType::I32, DataType::F64, DataType::U8})
      for (DataType to : {DataType::I64, DataType::F32}) {
        Shape whole = shape;
        whole.insert(whole.begin(), 4);
        Dataset data = {"data", 4, {arrayColumn("x", counting(from, whole))}, -1, {}};
        auto feeds = bindFeeds(data, {{"x", to, shape}}, "", "", {1, {}, {}});
        Batch batch = makeBatch(feeds, 2);
        std::vector<int64_t> rows = {3, 1};
        fillBatch(feeds, rows, -1, batch);
        HostTensor made(to, batch.tensors[0].shape(), batch.tensors[0].data(), nullptr);
        int64_t each = made.size() / 2;
        for (int64_t i = 0; i < each; ++i) {
          EXPECT_EQ(made.getDouble(i), double(3 * each + i)) << toString(shape);
          EXPECT_EQ(made.getDouble(each + i), double(each + i)) << toString(shape);
        }
      }
}

TEST(Feed, JoinsColumnsOfATable) {
  Dataset data = {"t.csv", 2, {}, -1, {}};
  for (const char *name : {"a", "b", "kind"})
    data.columns.push_back(arrayColumn(name, counting(DataType::F32, {2})));
  auto feeds =
      bindFeeds(data, {{"x", DataType::F32, {2}}, {"target", DataType::I64, {}}}, "target", "", {});
  Batch batch = makeBatch(feeds, 2);
  std::vector<int64_t> rows = {1, 0};
  fillBatch(feeds, rows, -1, batch);
  EXPECT_EQ(batch.tensors[0].as<float>()[1], 1);
  EXPECT_EQ(batch.tensors[1].as<int64_t>()[0], 1);
}

std::vector<int64_t> labelsFrom(const std::vector<Feed> &feeds, int64_t first, int workers) {
  std::vector<int64_t> order(103), labels;
  std::iota(order.rbegin(), order.rend(), 0);
  Loader loader({&feeds, order, 5, first, 0, false}, workers, 3);
  while (const Batch *batch = loader.next())
    labels.insert(labels.end(), batch->tensors[1].as<int64_t>(),
                  batch->tensors[1].as<int64_t>() + 5);
  return labels;
}

TEST(Loader, GivesBatchesInOrderWhoeverMakesThem) {
  auto feeds = feedsOf(pictures(103));
  auto all = labelsFrom(feeds, 0, 1);
  ASSERT_EQ(all.size(), 100u); // the rest fills no batch
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i], 102 - int64_t(i));
  EXPECT_EQ(labelsFrom(feeds, 0, 4), all);
  EXPECT_EQ(labelsFrom(feeds, 7, 4), std::vector<int64_t>(all.begin() + 35, all.end()));
}

TEST(Loader, LastBatchIsFilledUpWhereItIsAskedFor) {
  auto feeds = feedsOf(pictures(7));
  Loader loader({&feeds, {0, 1, 2, 3, 4, 5, 6}, 5, 0, -1, true}, 2, 2);
  EXPECT_EQ(loader.next()->rows, 5);
  const Batch *last = loader.next();
  EXPECT_EQ(last->rows, 2);
  EXPECT_EQ(last->tensors[1].as<int64_t>()[2], 5);
  EXPECT_EQ(loader.next(), nullptr);
}

/// However many workers there are, the batches before the broken sample come first.
TEST(Loader, FailsAtTheBatchThatIsBroken) {
  auto feeds = feedsOf(pictures(40));
  feeds[1].limitClasses(23);
  for (int workers : {1, 4}) {
    std::vector<int64_t> order(40);
    std::iota(order.begin(), order.end(), 0);
    Loader loader({&feeds, order, 5, 0, -1, false}, workers, 8);
    for (int i = 0; i < 4; ++i)
      EXPECT_NE(loader.next(), nullptr);
    EXPECT_HAS(refusal([&] { loader.next(); }), "sample 23 has the class 23");
  }
}

} // namespace
} // namespace tensmith::train
