// TreeSHAP, path-dependent; see Contributions.h.
#include "trees/Contributions.h"
#include "base/Cpus.h"
#include "trees/Threads.h"
#include "trees/Verification.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {
namespace {

/// A feature on the way to a node: the share of the rows that go that way where it is unknown
/// (zero) and known (one), and the weight of the subsets that have as many features as its place
/// in the path.
struct Step {
  int32_t feature;
  double zero, one, weight;
};

/// Adds a feature to all subsets of the path.
void extend(Step *path, int depth, double zero, double one, int32_t feature) {
  path[depth] = {feature, zero, one, depth == 0 ? 1.0 : 0.0};
  for (int i = depth - 1; i >= 0; --i) {
    path[i + 1].weight += one * path[i].weight * (i + 1) / (depth + 1);
    path[i].weight = zero * path[i].weight * (depth - i) / (depth + 1);
  }
}

/// Takes the feature at `index` out of all subsets again.
void unwind(Step *path, int depth, int index) {
  double one = path[index].one, zero = path[index].zero, next = path[depth].weight;
  for (int i = depth - 1; i >= 0; --i) {
    if (one != 0) {
      double held = path[i].weight;
      path[i].weight = next * (depth + 1) / ((i + 1) * one);
      next = held - path[i].weight * zero * (depth - i) / (depth + 1);
    } else {
      path[i].weight = path[i].weight * (depth + 1) / (zero * (depth - i));
    }
  }
  for (int i = index; i < depth; ++i) {
    path[i].feature = path[i + 1].feature;
    path[i].zero = path[i + 1].zero;
    path[i].one = path[i + 1].one;
  }
}

/// The sum of the weights that `unwind` would leave.
double unwoundSum(const Step *path, int depth, int index) {
  double one = path[index].one, zero = path[index].zero, next = path[depth].weight, total = 0;
  for (int i = depth - 1; i >= 0; --i) {
    if (one != 0) {
      double weight = next * (depth + 1) / ((i + 1) * one);
      total += weight;
      next = path[i].weight - weight * zero * (depth - i) / (depth + 1);
    } else if (zero != 0) {
      total += path[i].weight / zero * (depth + 1) / (depth - i);
    }
  }
  return total;
}

bool goesLeft(const Tree &tree, const Feature &feature, int32_t node, float x) {
  bool missingLeft = tree.missingLeft[size_t(node)];
  if (std::isnan(x) || (feature.zeroIsMissing && std::abs(x) <= 1e-35f))
    return missingLeft;
  if (!tree.isCategorical(node))
    return x < tree.threshold[size_t(node)];
  if (!(x > -1 && x < float(feature.categories)))
    return missingLeft;
  auto begin = tree.categories.begin() + tree.categoryBegin[size_t(node)];
  auto end = tree.categories.begin() + tree.categoryEnd[size_t(node)];
  return std::binary_search(begin, end, int32_t(x));
}

int32_t depthOf(const Tree &tree) {
  std::vector<int32_t> depth(size_t(tree.size()), 0);
  int32_t most = 0;
  for (int32_t node = 0; node < tree.size(); ++node) // children come after parents
    if (!tree.isLeaf(node))
      for (int32_t child : {tree.left[size_t(node)], tree.right[size_t(node)]})
        most = std::max(most, depth[size_t(child)] = depth[size_t(node)] + 1);
  return most;
}

/// The mean value of each node's leaves, by covers.
std::vector<double> meansOf(const Tree &tree) {
  std::vector<double> mean(tree.value.begin(), tree.value.end());
  for (int32_t node = tree.size() - 1; node >= 0; --node)
    if (!tree.isLeaf(node)) {
      auto left = size_t(tree.left[size_t(node)]), right = size_t(tree.right[size_t(node)]);
      double covers = double(tree.cover[left]) + tree.cover[right];
      mean[size_t(node)] =
          (mean[left] * tree.cover[left] + mean[right] * tree.cover[right]) / covers;
    }
  return mean;
}

/// One tree's contributions to one row at a time.
class TreeExplainer {
public:
  TreeExplainer(const Forest &forest, const Tree &tree, double scale)
      : forest_(forest), tree_(tree), scale_(scale), depth_(depthOf(tree)),
        steps_(size_t(depth_ + 2) * size_t(depth_ + 3) / 2 + size_t(depth_) + 2) {}

  void add(const float *row, double *sums) {
    row_ = row;
    sums_ = sums;
    visit(0, steps_.data(), 0, 1, 1, -1);
  }

private:
  /// A way's length is at most the tree's depth, which recursion can stand: kMostDepth.
  void visit(int32_t node, Step *above, int depth, double zero, double one, int32_t feature) {
    // Each level has a path of its own behind its parent's.
    Step *path = above + depth;
    std::copy_n(above, depth, path);
    extend(path, depth, zero, one, feature);
    if (tree_.isLeaf(node))
      return addLeaf(node, path, depth);
    int32_t tested = tree_.feature[size_t(node)];
    bool left = goesLeft(tree_, forest_.features[size_t(tested)], node, row_[tested]);
    int32_t hot = left ? tree_.left[size_t(node)] : tree_.right[size_t(node)];
    int32_t cold = left ? tree_.right[size_t(node)] : tree_.left[size_t(node)];
    double covers = double(tree_.cover[size_t(hot)]) + tree_.cover[size_t(cold)];
    double above0 = 1, above1 = 1;
    int found = 0;
    while (found <= depth && path[found].feature != tested)
      ++found;
    if (found <= depth) { // a feature counts once on a path
      above0 = path[found].zero;
      above1 = path[found].one;
      unwind(path, depth--, found);
    }
    visit(hot, path, depth + 1, above0 * tree_.cover[size_t(hot)] / covers, above1, tested);
    visit(cold, path, depth + 1, above0 * tree_.cover[size_t(cold)] / covers, 0, tested);
  }

  void addLeaf(int32_t node, const Step *path, int depth) {
    for (int i = 1; i <= depth; ++i)
      sums_[path[i].feature] += unwoundSum(path, depth, i) * (path[i].one - path[i].zero) * scale_ *
                                tree_.value[size_t(node)];
  }

  const Forest &forest_;
  const Tree &tree_;
  double scale_;
  int32_t depth_;
  std::vector<Step> steps_;
  const float *row_ = nullptr;
  double *sums_ = nullptr;
};

constexpr int32_t kMostDepth = 1024; // of recursion, and of the paths' square of memory

Status checkTrees(const Forest &forest, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const Tree &tree = forest.trees[size_t(i)];
    if (depthOf(tree) > kMostDepth)
      return unsupported(fmt::format("tree {} is deeper than {} levels", i, kMostDepth));
    for (int32_t node = 0; node < tree.size(); ++node)
      if (!tree.isLeaf(node) && !(tree.cover[size_t(tree.left[size_t(node)])] > 0 &&
                                  tree.cover[size_t(tree.right[size_t(node)])] > 0))
        return unsupported("the forest does not say how many rows went each way (covers), which "
                           "contributions are weighted by; models from ONNX don't");
  }
  return {};
}

constexpr int64_t kBlock = 32;

} // namespace

Status contributions(const Forest &forest, const DenseRows &rows, std::span<float> out,
                     int64_t trees, int threads) {
  if (Status status = verifyForest(forest); !status.ok())
    return status;
  auto features = int64_t(forest.features.size()), width = features + 1;
  if (rows.columns != features || rows.stride < rows.columns)
    return invalidArgument(fmt::format("the rows have {} columns, but the forest has {} features",
                                       rows.columns, features));
  if (int64_t(out.size()) != rows.rows * forest.channels() * width)
    return invalidArgument("the results have another size than [rows, channels, features + 1]");
  int64_t count = std::min(trees < 0 ? countedTrees(forest) : trees, int64_t(forest.trees.size()));
  if (Status status = checkTrees(forest, count); !status.ok())
    return status;
  std::vector<double> bias = forest.baseScores;
  for (int64_t i = 0; i < count; ++i)
    bias[size_t(forest.channel[size_t(i)])] +=
        double(forest.scale[size_t(i)]) * meansOf(forest.trees[size_t(i)])[0];
  auto perRow = size_t(forest.channels() * width);
  int64_t most = std::max<int64_t>((rows.rows + kBlock - 1) / kBlock, 1);
  Threads pool(std::min<int64_t>(threads > 0 ? threads : availableCpus(), most));
  return pool.rangesInMemory(
      rows.rows, kBlock, "a block of contributions", [&](int64_t first, int64_t end, int) {
        std::vector<double> sums(size_t(end - first) * perRow);
        for (int64_t tree = 0; tree < count; ++tree) {
          TreeExplainer explainer(forest, forest.trees[size_t(tree)], forest.scale[size_t(tree)]);
          for (int64_t row = first; row < end; ++row)
            explainer.add(rows.values + row * rows.stride,
                          sums.data() + size_t(row - first) * perRow +
                              size_t(forest.channel[size_t(tree)] * width));
        }
        for (size_t i = 0; i < sums.size(); ++i)
          out[size_t(first) * perRow + i] = float(
              i % size_t(width) == size_t(features) ? bias[i % perRow / size_t(width)] : sums[i]);
      });
}

} // namespace tensmith::trees
