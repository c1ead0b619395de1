// LightGBM's models as text: sections of lines "key=value", the first of the model, then one a
// tree.
//
// Splits and leaves have numbers of their own; a child below 0 is the leaf ~child. A decision is of
// x <= t in f64. The kind of missing values is one of three, for each split:
//
//   NaN    NaN goes the default way
//   zero   what is within 1e-35 of zero, and NaN, goes the default way: the feature's zeros are
//          missing (Feature::zeroIsMissing), which then holds for all of its splits
//   none   NaN is taken for 0, and so goes where 0 goes
//
// A split of categories sends what is not in its set right, NaN included.
#include "trees/ModelFormats.h"
#include "trees/Objective.h"
#include "trees/TreeAssembly.h"
#include "trees/Verification.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

namespace tensmith::trees {
namespace {

struct Broken {
  Status status;
};

[[noreturn]] void broken(std::string what) {
  throw Broken{{StatusCode::InvalidModel, std::move(what)}};
}

using Section = std::map<std::string_view, std::string_view>;

/// The lines up to the next section's first, which `text` then begins with.
Section takeSection(std::string_view &text) {
  Section section;
  for (bool first = true; !text.empty(); first = false) {
    std::string_view line = text.substr(0, text.find('\n'));
    bool isTree = line.starts_with("Tree=");
    if ((isTree && !first) || line.starts_with("end of trees"))
      break;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    size_t equals = line.find('=');
    section.try_emplace(line.substr(0, equals),
                        equals == line.npos ? std::string_view() : line.substr(equals + 1));
  }
  return section;
}

template <typename T> T numberIn(std::string_view text, std::string_view key) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range && std::is_floating_point_v<T>)
    return text.find("e-") != text.npos ? T(0) : std::numeric_limits<T>::infinity();
  if (error != std::errc() || end != text.data() + text.size())
    broken(fmt::format("'{}' is not a list of numbers", key));
  return value;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    if (end > 0)
      result.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

template <typename T>
std::vector<T> numbers(const Section &section, const char *key, int64_t count) {
  auto found = section.find(key);
  std::vector<T> result;
  for (std::string_view word : words(found == section.end() ? "" : found->second))
    result.push_back(numberIn<T>(word, key));
  if (count >= 0 && int64_t(result.size()) != count)
    broken(fmt::format("'{}' has {} numbers, where {} are expected", key, result.size(), count));
  return result;
}

int64_t countAt(const Section &section, const char *key, int64_t least, int64_t most,
                std::optional<int64_t> otherwise = {}) {
  auto found = section.find(key);
  if (found == section.end() && otherwise)
    return *otherwise;
  if (found == section.end())
    broken(fmt::format("has no '{}'; is it a model that LightGBM saved as text?", key));
  auto value = numberIn<int64_t>(found->second, key);
  if (value < least || value > most)
    broken(fmt::format("'{}' is {}, not from {} to {}", key, value, least, most));
  return value;
}

enum Missing { None, Zero, NaN };

/// A tree's lists, by split or by leaf.
struct Lists {
  int64_t leaves, splits;
  std::vector<int64_t> features, types, left, right;
  std::vector<double> thresholds, gains, leafValues, leafWeights, values, weights;
  std::vector<int64_t> boundaries;
  std::vector<uint32_t> bits;

  explicit Lists(const Section &section)
      : leaves(countAt(section, "num_leaves", 1, kMostNodes / 2)), splits(leaves - 1),
        features(numbers<int64_t>(section, "split_feature", splits)),
        types(numbers<int64_t>(section, "decision_type", splits)),
        left(numbers<int64_t>(section, "left_child", splits)),
        right(numbers<int64_t>(section, "right_child", splits)),
        thresholds(numbers<double>(section, "threshold", splits)),
        gains(numbers<double>(section, "split_gain", splits)),
        leafValues(numbers<double>(section, "leaf_value", leaves)),
        leafWeights(optional(section, "leaf_weight", leaves)),
        values(optional(section, "internal_value", splits)),
        weights(optional(section, "internal_weight", splits)) {
    if (countAt(section, "num_cat", 0, kMostNodes, 0) > 0) {
      boundaries = numbers<int64_t>(section, "cat_boundaries", -1);
      bits = numbers<uint32_t>(section, "cat_threshold", -1);
    }
    if (countAt(section, "is_linear", 0, 1, 0))
      throw Broken{unsupported("its leaves are linear models; train without linear_tree")};
  }

  static std::vector<double> optional(const Section &section, const char *key, int64_t count) {
    auto result = numbers<double>(section, key, -1);
    result.resize(size_t(count), 0);
    return result;
  }
};

/// `words`: those of the tree's sets so far, which don't share any.
std::vector<int32_t> setOf(const Lists &lists, double number, int64_t &words) {
  auto count = int64_t(lists.boundaries.size()) - 1;
  if (!(number >= 0 && number < double(count)))
    broken(fmt::format("has no set of categories {}", number));
  int64_t begin = lists.boundaries[size_t(number)], end = lists.boundaries[size_t(number) + 1];
  if (begin < 0 || begin > end || end > int64_t(lists.bits.size()) ||
      (words += end - begin) > int64_t(lists.bits.size()))
    broken("has a set of categories that is not there");
  std::vector<int32_t> result;
  for (int64_t word = begin; word < end; ++word)
    for (uint32_t bits = lists.bits[size_t(word)]; bits; bits &= bits - 1)
      result.push_back(int32_t((word - begin) * 32 + std::countr_zero(bits)));
  return result;
}

float finite(double value) { return std::isfinite(value) ? float(value) : 0; }

class TreeReader {
public:
  TreeReader(const Lists &lists, Forest &forest, std::vector<int> &missing)
      : lists_(lists), forest_(forest), missing_(missing) {}

  /// Splits, then leaves.
  Result<GivenNode> nodeAt(int64_t number) {
    GivenNode node;
    if (number >= lists_.splits) {
      auto leaf = size_t(number - lists_.splits);
      node.value = float(lists_.leafValues[leaf]);
      node.cover = finite(std::max(lists_.leafWeights[leaf], 0.0));
      return node;
    }
    auto i = size_t(number);
    if (lists_.features[i] < 0 || lists_.features[i] >= int64_t(forest_.features.size()))
      broken(fmt::format("split {} tests the feature {}, but there are {}", number,
                         lists_.features[i], forest_.features.size()));
    node.feature = int32_t(lists_.features[i]);
    node.value = finite(lists_.values[i]);
    node.cover = finite(std::max(lists_.weights[i], 0.0));
    node.gain = finite(lists_.gains[i]);
    node.left = childOf(lists_.left[i]);
    node.right = childOf(lists_.right[i]);
    lists_.types[i] & 1 ? readSet(node, i) : readThreshold(node, i);
    return node;
  }

private:
  int64_t childOf(int64_t child) const { return child < 0 ? lists_.splits + ~child : child; }

  void readSet(GivenNode &node, size_t i) {
    node.categories = setOf(lists_, lists_.thresholds[i], words_);
    forest_.features[size_t(node.feature)].categories = kMostCategories;
  }

  void readThreshold(GivenNode &node, size_t i) {
    double t = lists_.thresholds[i];
    node.threshold = floatAbove(t);
    bool isDefaultLeft = lists_.types[i] & 2;
    auto kind = int(lists_.types[i] >> 2 & 3);
    node.missingLeft = kind == None ? 0 <= t : isDefaultLeft;
    // Where zero goes the default way by itself, it need not be missing.
    int &known = missing_[size_t(node.feature)];
    if (kind != Zero)
      known |= (0 <= t) == node.missingLeft ? 0 : 1;
    else if ((0 <= t) != isDefaultLeft)
      known |= 2;
    if (known == 3)
      throw Broken{unsupported(fmt::format(
          "zeros of the feature {} are missing for some splits and numbers for others; train "
          "without zero_as_missing",
          node.feature))};
    forest_.features[size_t(node.feature)].zeroIsMissing |= (known & 2) != 0;
  }

  const Lists &lists_;
  Forest &forest_;
  /// Of each feature: 1, a split needs its zeros to be numbers; 2, one needs them missing.
  std::vector<int> &missing_;
  int64_t words_ = 0;
};

/// Ours with the transform of LightGBM's, by the first word; null where there is none.
const char *objectiveFor(std::string_view name) {
  static const std::map<std::string_view, const char *> kNames = {
      {"", "reg:squarederror"},
      {"custom", "reg:squarederror"},
      {"regression", "reg:squarederror"},
      {"regression_l2", "reg:squarederror"},
      {"regression_l1", "reg:absoluteerror"},
      {"huber", "reg:pseudohubererror"},
      {"fair", "reg:squarederror"},
      {"quantile", "reg:quantileerror"},
      {"mape", "reg:absoluteerror"},
      {"poisson", "count:poisson"},
      {"gamma", "count:poisson"},
      {"tweedie", "reg:tweedie"},
      {"binary", "binary:logistic"},
      {"cross_entropy", "binary:logistic"},
      {"multiclass", "multi:softprob"},
      {"multiclassova", "binary:logistic"},
      {"lambdarank", "rank:ndcg"},
      {"rank_xendcg", "rank:ndcg"}};
  auto found = kNames.find(name);
  return found == kNames.end() ? nullptr : found->second;
}

/// Gives back what outputs are multiplied by before the transform.
double readObjective(std::string_view text, int64_t channels, Forest &forest) {
  auto parts = words(text);
  std::string_view name = parts.empty() ? "" : parts[0];
  const char *like = objectiveFor(name);
  const Objective *objective = like ? findObjective(like) : nullptr;
  double sigmoid = 1;
  for (std::string_view part : parts) {
    if (part == "sqrt")
      objective = nullptr;
    if (part.starts_with("sigmoid:"))
      sigmoid = numberIn<double>(part.substr(8), "objective");
  }
  if (!objective)
    throw Broken{unsupported(fmt::format("its objective '{}' is not known here", text))};
  forest.objective = objective->name;
  bool isBinary = objective->task == Objective::Task::Binary && name != "cross_entropy";
  int64_t labels = channels > 1 ? channels : isBinary ? 2 : 0;
  for (int64_t label = 0; label < labels; ++label)
    forest.classes.push_back(label);
  return sigmoid;
}

void readHeader(const Section &header, Forest &forest, double &factor) {
  int64_t channels = countAt(header, "num_tree_per_iteration", 1, kMostChannels);
  forest.baseScores.assign(size_t(channels), 0);
  forest.features.resize(size_t(countAt(header, "max_feature_idx", 0, kMostFeatures - 1)) + 1);
  auto objective = header.find("objective");
  factor = readObjective(objective == header.end() ? "" : objective->second, channels, forest);
  auto names = header.find("feature_names");
  auto given = words(names == header.end() ? "" : names->second);
  if (given.size() == forest.features.size())
    for (size_t i = 0; i < given.size(); ++i)
      forest.features[i].name = std::string(given[i]);
}

Forest forestOf(std::string_view text) {
  if (!text.starts_with("tree"))
    broken("does not begin with 'tree', as LightGBM's models do");
  // Each feature has a name of some bytes.
  auto most = int64_t(text.size());
  Section header = takeSection(text);
  if (countAt(header, "max_feature_idx", 0, kMostFeatures - 1) >= most)
    broken("has more features than bytes");
  Forest forest;
  double factor = 1;
  readHeader(header, forest, factor);
  std::vector<int> missing(forest.features.size(), 0);
  while (text.starts_with("Tree=")) {
    auto index = forest.trees.size();
    try {
      Lists lists(takeSection(text));
      TreeReader reader(lists, forest, missing);
      auto tree = assembleTree(lists.splits > 0 ? 0 : lists.splits, lists.splits + lists.leaves,
                               [&](int64_t number) { return reader.nodeAt(number); });
      if (!tree.ok())
        throw Broken{tree.status()};
      forest.trees.push_back(std::move(*tree));
    } catch (const Broken &error) {
      throw Broken{error.status.within(fmt::format("tree {}", index))};
    }
    forest.channel.push_back(int32_t(int64_t(index) % forest.channels()));
  }
  if (!text.starts_with("end of trees"))
    broken("is cut off before 'end of trees'");
  double rounds = std::max<double>(double(forest.trees.size()) / double(forest.channels()), 1);
  forest.scale.assign(forest.trees.size(),
                      float(header.contains("average_output") ? factor / rounds : factor));
  return forest;
}

} // namespace

Result<Forest> readLightgbm(std::string_view text) {
  try {
    Forest forest = forestOf(text);
    Status status = verifyForest(forest);
    return status.ok() ? Result<Forest>(std::move(forest)) : Result<Forest>(status);
  } catch (const Broken &error) {
    return error.status;
  }
}

} // namespace tensmith::trees
