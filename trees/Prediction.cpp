// Ways down trees, side by side; see Prediction.h.
#include "trees/Prediction.h"
#include "base/Cpus.h"
#include "trees/Threads.h"
#include "trees/Verification.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace tensmith::trees {
namespace {

constexpr int kWays = 16;
constexpr int kSteps = 4; // between looks whether all ways have ended
constexpr int64_t kBlock = 64;
constexpr int64_t kThreadWork = 1 << 16; // steps that are worth a thread
constexpr uint32_t kMissingLeft = 1u << 31, kSplit = 1u << 30, kCategorical = 1u << 29;
constexpr uint32_t kSlot = kCategorical - 1;
constexpr int64_t kBitsOfMember = 64, kFewBits = 1024; // a set of few among many is a list
constexpr float kZeroBand = 1e-35f;
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

} // namespace

/// Rows whose tested features lie in their slots.
struct Predictor::Block {
  int64_t first = 0, count = 0;
  std::vector<float> values;
  std::vector<const float *> rows;
};

int64_t Predictor::slotOf(int32_t feature) {
  int32_t &slot = slots_[size_t(feature)];
  if (slot < 0) {
    slot = int32_t(features_.size());
    features_.push_back(feature);
  }
  return slot;
}

void Predictor::packNode(const Tree &tree, int32_t from, size_t place, const Forest &forest) {
  number_[place] = from;
  if (tree.isLeaf(from)) {
    nodes_[place] = {0, int32_t(place), 0, tree.value[from]};
    return;
  }
  int32_t feature = tree.feature[from];
  auto word = uint32_t(slotOf(feature)) | kSplit | (tree.missingLeft[from] ? kMissingLeft : 0);
  Node node{tree.threshold[from], int32_t(nodes_.size()), word, 0};
  if (tree.isCategorical(from)) {
    node.word |= kCategorical;
    node.value = std::bit_cast<float>(int32_t(sets_.size()));
    hasCategories_ = true;
    auto begin = tree.categories.begin() + tree.categoryBegin[from];
    auto end = tree.categories.begin() + tree.categoryEnd[from];
    packSet({begin, end}, forest.features[size_t(feature)].categories);
  }
  nodes_[place] = node;
}

void Predictor::packSet(std::span<const int32_t> members, int64_t known) {
  int64_t bits = int64_t(members.back()) + 1, count = int64_t(members.size());
  if (bits > kBitsOfMember * count + kFewBits) {
    sets_.push_back({int64_t(members_.size()), count, known, /*isList=*/true});
    members_.insert(members_.end(), members.begin(), members.end());
    return;
  }
  sets_.push_back({int64_t(bits_.size()), bits, known, /*isList=*/false});
  bits_.resize(bits_.size() + size_t(bits), false);
  for (int32_t member : members)
    bits_[size_t(sets_.back().first + member)] = true;
}

/// Breadth first, a node's children side by side.
void Predictor::pack(const Tree &tree, const Forest &forest) {
  size_t begin = nodes_.size(), levelEnd = begin + 1;
  std::vector<int32_t> given{0};
  nodes_.emplace_back();
  number_.emplace_back();
  int32_t depth = 0;
  for (size_t place = begin; place < nodes_.size(); ++place) {
    if (place == levelEnd) {
      ++depth;
      levelEnd = nodes_.size();
    }
    int32_t from = given[place - begin];
    packNode(tree, from, place, forest);
    if (tree.isLeaf(from))
      continue;
    given.insert(given.end(), {tree.left[from], tree.right[from]});
    nodes_.resize(nodes_.size() + 2);
    number_.resize(nodes_.size());
  }
  roots_.push_back(int32_t(begin));
  depths_.push_back(depth);
}

Result<Predictor> Predictor::of(const Forest &forest, int64_t trees) {
  if (Status status = verifyForest(forest); !status.ok())
    return status;
  Predictor predictor;
  auto all = int64_t(forest.trees.size());
  int64_t count = std::min(trees < 0 ? countedTrees(forest) : trees, all);
  predictor.baseScores_ = forest.baseScores;
  predictor.channel_.assign(forest.channel.begin(), forest.channel.begin() + count);
  predictor.scale_.assign(forest.scale.begin(), forest.scale.begin() + count);
  predictor.slots_.assign(forest.features.size(), -1);
  for (int64_t i = 0; i < count; ++i)
    predictor.pack(forest.trees[size_t(i)], forest);
  for (int32_t feature : predictor.features_) {
    predictor.zeroIsMissing_.push_back(forest.features[size_t(feature)].zeroIsMissing);
    predictor.hasZeros_ |= forest.features[size_t(feature)].zeroIsMissing;
  }
  return predictor;
}

bool Predictor::goesLeft(const Node &node, float x) const {
  bool missingLeft = node.word & kMissingLeft;
  if (!(node.word & kCategorical))
    return (x < node.threshold) | (std::isnan(x) & missingLeft);
  const Set &set = sets_[size_t(std::bit_cast<int32_t>(node.value))];
  if (!(x > -1 && x < float(set.known)))
    return missingLeft;
  auto category = int64_t(x);
  if (set.isList) {
    auto first = members_.begin() + set.first;
    return std::binary_search(first, first + set.count, int32_t(category));
  }
  return category < set.count && bits_[size_t(set.first + category)];
}

template <bool kCategories> int32_t Predictor::next(int32_t place, const float *row) const {
  const Node &node = nodes_[size_t(place)];
  float x = row[node.word & kSlot];
  if constexpr (kCategories)
    return node.next + int32_t(((node.word & kSplit) != 0) & !goesLeft(node, x));
  uint32_t left = uint32_t(x < node.threshold) | (uint32_t(x != x) & (node.word >> 31));
  return node.next + int32_t((node.word >> 30) & ~left & 1);
}

template <bool kCategories>
void Predictor::follow(const float *const *rows, int32_t *places, int32_t depth) const {
  for (int32_t step = 0; step < depth;) {
    for (int32_t end = std::min(depth, step + kSteps); step < end; ++step)
      for (int way = 0; way < kWays; ++way)
        places[way] = next<kCategories>(places[way], rows[way]);
    bool goesOn = false;
    for (int way = 0; step < depth && way < kWays; ++way)
      goesOn |= (nodes_[size_t(places[way])].word & kSplit) != 0;
    if (!goesOn)
      return;
  }
}

void Predictor::follow(const float *const *rows, int32_t *places, int32_t depth) const {
  hasCategories_ ? follow<true>(rows, places, depth) : follow<false>(rows, places, depth);
}

/// give(row of the block, tree, place of the leaf), of a row in the order of the trees.
template <typename Give> void Predictor::followBlock(const Block &block, const Give &give) const {
  int32_t places[kWays];
  const float *rows[kWays];
  int64_t whole = block.count / kWays * kWays;
  for (int64_t tree = 0; whole > 0 && tree < trees(); ++tree)
    for (int64_t group = 0; group < whole; group += kWays) {
      std::fill_n(places, kWays, roots_[size_t(tree)]);
      follow(block.rows.data() + group, places, depths_[size_t(tree)]);
      for (int way = 0; way < kWays; ++way)
        give(group + way, tree, places[way]);
    }
  for (int64_t row = whole; row < block.count; ++row)
    for (int64_t first = 0; first < trees(); first += kWays) {
      int64_t count = std::min<int64_t>(kWays, trees() - first);
      int32_t depth = 0;
      std::fill_n(rows, kWays, block.rows[size_t(row)]);
      for (int64_t way = 0; way < kWays; ++way) {
        auto tree = size_t(first + std::min(way, count - 1));
        places[way] = roots_[tree];
        depth = std::max(depth, depths_[tree]);
      }
      follow(rows, places, depth);
      for (int64_t way = 0; way < count; ++way)
        give(row, first + way, places[way]);
    }
}

void Predictor::load(const DenseRows &rows, int64_t first, Block &block) const {
  size_t slots = features_.size();
  for (int64_t row = 0; row < block.count; ++row) {
    const float *from = rows.values + (first + row) * rows.stride;
    float *to = block.values.data() + size_t(row) * slots;
    for (size_t slot = 0; slot < slots; ++slot)
      to[slot] = from[features_[slot]];
  }
}

void Predictor::load(const SparseRows &rows, int64_t first, Block &block) const {
  size_t slots = features_.size();
  std::fill_n(block.values.begin(), size_t(block.count) * slots, kMissing);
  for (int64_t row = 0; row < block.count; ++row)
    for (int64_t i = rows.begin[first + row]; i < rows.begin[first + row + 1]; ++i)
      if (int32_t slot = slots_[size_t(rows.column[i])]; slot >= 0)
        block.values[size_t(row) * slots + size_t(slot)] = rows.value[i];
}

template <typename Rows, typename Work>
Status Predictor::overBlocks(const Rows &rows, int threads, const Work &work) const {
  // At least one slot, which leaves read.
  size_t slots = std::max<size_t>(features_.size(), 1);
  int64_t steps = rows.rows * (trees() + 1) * 6;
  int64_t most = std::min((rows.rows + kBlock - 1) / kBlock, steps / kThreadWork + 1);
  Threads pool(
      std::min<int64_t>(threads > 0 ? threads : availableCpus(), std::max<int64_t>(most, 1)));
  std::vector<Block> blocks(size_t(pool.count()));
  return pool.rangesInMemory(
      rows.rows, kBlock, "a block of rows", [&](int64_t first, int64_t end, int thread) {
        Block &block = blocks[size_t(thread)];
        if (block.values.empty()) {
          block.values.resize(slots * size_t(std::min(kBlock, rows.rows)));
          block.rows.resize(size_t(kBlock));
          for (int64_t row = 0; row < kBlock; ++row)
            block.rows[size_t(row)] = block.values.data() + size_t(row) * features_.size();
        }
        block.first = first;
        block.count = end - first;
        load(rows, first, block);
        for (size_t i = 0; hasZeros_ && i < size_t(block.count) * features_.size(); ++i)
          if (zeroIsMissing_[i % features_.size()] && std::abs(block.values[i]) <= kZeroBand)
            block.values[i] = kMissing;
        work(block);
      });
}

namespace {

Status checkEntries(const DenseRows &rows, int64_t features) {
  if (rows.columns != features || rows.stride < rows.columns)
    return invalidArgument(fmt::format("the rows have {} columns, but the forest has {} features; "
                                       "give all of them, NaN where one is missing",
                                       rows.columns, features));
  return {};
}

Status checkEntries(const SparseRows &rows, int64_t features) {
  if (rows.columns > features)
    return invalidArgument(fmt::format("the rows have {} columns, but the forest has {} features",
                                       rows.columns, features));
  if (rows.begin[0] != 0)
    return invalidArgument("the first row's entries don't begin at 0");
  for (int64_t row = 0; row < rows.rows; ++row)
    if (rows.begin[row + 1] < rows.begin[row])
      return invalidArgument(fmt::format("row {} ends before it begins", row));
  for (int64_t i = 0; i < rows.begin[rows.rows]; ++i)
    if (rows.column[i] < 0 || rows.column[i] >= rows.columns)
      return invalidArgument(fmt::format("entry {} is in column {}, but there are {}", i,
                                         rows.column[i], rows.columns));
  return {};
}

} // namespace

template <typename Rows>
Status Predictor::check(const Rows &rows, size_t size, int64_t width) const {
  if (rows.rows < 0 || size != size_t(rows.rows) * size_t(width))
    return invalidArgument(fmt::format("the results have {} elements, but {} rows of {} are asked "
                                       "for",
                                       size, rows.rows, width));
  return checkEntries(rows, int64_t(slots_.size()));
}

template <typename Rows>
Status Predictor::outputsOf(const Rows &rows, std::span<float> out, int threads) const {
  if (Status status = check(rows, out.size(), channels()); !status.ok())
    return status;
  auto width = size_t(channels());
  return overBlocks(rows, threads, [&](const Block &block) {
    std::vector<double> sums;
    for (int64_t row = 0; row < block.count; ++row)
      sums.insert(sums.end(), baseScores_.begin(), baseScores_.end());
    followBlock(block, [&](int64_t row, int64_t tree, int32_t place) {
      sums[size_t(row) * width + size_t(channel_[size_t(tree)])] +=
          double(scale_[size_t(tree)]) * double(nodes_[size_t(place)].value);
    });
    std::ranges::transform(sums, out.begin() + block.first * channels(),
                           [](double sum) { return float(sum); });
  });
}

template <typename Rows>
Status Predictor::leavesOf(const Rows &rows, std::span<int32_t> out, int threads) const {
  if (Status status = check(rows, out.size(), trees()); !status.ok())
    return status;
  return overBlocks(rows, threads, [&](const Block &block) {
    followBlock(block, [&](int64_t row, int64_t tree, int32_t place) {
      out[size_t((block.first + row) * trees() + tree)] = number_[size_t(place)];
    });
  });
}

Status Predictor::outputs(const DenseRows &rows, std::span<float> out, int threads) const {
  return outputsOf(rows, out, threads);
}
Status Predictor::outputs(const SparseRows &rows, std::span<float> out, int threads) const {
  return outputsOf(rows, out, threads);
}
Status Predictor::leaves(const DenseRows &rows, std::span<int32_t> out, int threads) const {
  return leavesOf(rows, out, threads);
}
Status Predictor::leaves(const SparseRows &rows, std::span<int32_t> out, int threads) const {
  return leavesOf(rows, out, threads);
}

} // namespace tensmith::trees
