// Attributes of tree ensembles; see OnnxEnsemble.h.
#include "trees/OnnxEnsemble.h"

#include <onnx-ml.pb.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <unordered_map>

namespace tensmith::trees {
namespace {

static_assert(std::endian::native == std::endian::little); // raw data of tensors

struct Broken {
  Status status;
};

[[noreturn]] void broken(std::string what) {
  throw Broken{{StatusCode::InvalidModel, std::move(what)}};
}

const onnx::AttributeProto *find(const onnx::NodeProto &node, std::string_view name) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

template <typename T> std::vector<double> ofRaw(const std::string &raw) {
  std::vector<double> result(raw.size() / sizeof(T));
  for (size_t i = 0; i < result.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    result[i] = double(value);
  }
  return result;
}

std::vector<double> ofTensor(const onnx::TensorProto &tensor) {
  using T = onnx::TensorProto;
  const std::string &raw = tensor.raw_data();
  switch (tensor.data_type()) {
  case T::FLOAT:
    return raw.empty() ? std::vector<double>(tensor.float_data().begin(), tensor.float_data().end())
                       : ofRaw<float>(raw);
  case T::DOUBLE:
    return raw.empty()
               ? std::vector<double>(tensor.double_data().begin(), tensor.double_data().end())
               : ofRaw<double>(raw);
  case T::UINT8:
    return raw.empty() ? std::vector<double>(tensor.int32_data().begin(), tensor.int32_data().end())
                       : ofRaw<uint8_t>(raw);
  case T::INT64:
    return raw.empty() ? std::vector<double>(tensor.int64_data().begin(), tensor.int64_data().end())
                       : ofRaw<int64_t>(raw);
  default:
    broken("has a tensor that is neither f32, f64, i64 nor u8");
  }
}

/// Floats, or the tensor that stands for them: `name`, or `name` + "_as_tensor".
std::vector<double> floats(const onnx::NodeProto &node, const std::string &name) {
  if (const auto *tensor = find(node, name + "_as_tensor"))
    return ofTensor(tensor->t());
  const auto *attribute = find(node, name);
  if (!attribute)
    return {};
  if (attribute->has_t())
    return ofTensor(attribute->t());
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<int64_t> integers(const onnx::NodeProto &node, const std::string &name) {
  const auto *attribute = find(node, name);
  if (!attribute)
    return {};
  if (attribute->has_t()) {
    std::vector<int64_t> result;
    for (double value : ofTensor(attribute->t()))
      result.push_back(int64_t(value));
    return result;
  }
  return {attribute->ints().begin(), attribute->ints().end()};
}

template <typename T> T sized(T list, size_t count, const char *name) {
  if (list.size() != count)
    broken(fmt::format("'{}' has {} elements, where {} are expected", name, list.size(), count));
  return list;
}

int64_t integer(const onnx::NodeProto &node, const std::string &name, int64_t otherwise) {
  const auto *attribute = find(node, name);
  return attribute ? attribute->i() : otherwise;
}

std::string text(const onnx::NodeProto &node, const std::string &name, std::string otherwise) {
  const auto *attribute = find(node, name);
  return attribute ? attribute->s() : otherwise;
}

int64_t modeOf(const std::string &name) {
  static constexpr const char *kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                           "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const auto *found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames))
    broken("has a node of the mode '" + name + "'");
  return found - std::begin(kNames);
}

/// A tree's number and a node's, by which opsets before 5 name nodes.
struct Name {
  int64_t tree, node;
  bool operator==(const Name &) const = default;
};
struct HashOfName {
  size_t operator()(const Name &name) const {
    return std::hash<int64_t>()(name.tree * 0x9e3779b97f4a7c15 + name.node);
  }
};

/// Of opsets 1 to 4.
class NamedReader {
public:
  NamedReader(const onnx::NodeProto &node, OnnxEnsemble &ensemble)
      : node_(node), ensemble_(ensemble), trees_(integers(node, "nodes_treeids")),
        numbers_(sized(integers(node, "nodes_nodeids"), trees_.size(), "nodes_nodeids")) {}

  void read() {
    place();
    readSplits();
    ensemble_.isClassifier ? readWeights("class") : readWeights("target");
  }

private:
  /// Which splits and leaves there are, by name; a tree's root is the first of its nodes.
  void place() {
    const auto *modes = find(node_, "nodes_modes");
    if (!modes || modes->strings().size() != int(trees_.size()))
      broken("has not a mode for each node");
    for (size_t i = 0; i < trees_.size(); ++i) {
      bool isLeaf = modes->strings(int(i)) == "LEAF";
      modes_.push_back(isLeaf ? -1 : modeOf(modes->strings(int(i))));
      int64_t at =
          isLeaf ? -1 - int64_t(ensemble_.leaves.size()) : int64_t(ensemble_.splits.size());
      isLeaf ? void(ensemble_.leaves.emplace_back()) : void(ensemble_.splits.emplace_back());
      if (!places_.try_emplace({trees_[i], numbers_[i]}, at).second)
        broken(fmt::format("tree {} has two nodes {}", trees_[i], numbers_[i]));
      if (seen_.try_emplace(trees_[i], true).second)
        ensemble_.roots.push_back(at);
    }
  }

  int64_t placeOf(int64_t tree, int64_t number) const {
    auto found = places_.find({tree, number});
    if (found == places_.end())
      broken(fmt::format("tree {} has no node {}", tree, number));
    return found->second;
  }

  void readSplits() {
    size_t count = trees_.size();
    auto features = sized(integers(node_, "nodes_featureids"), count, "nodes_featureids");
    auto values = sized(floats(node_, "nodes_values"), count, "nodes_values");
    auto yes = sized(integers(node_, "nodes_truenodeids"), count, "nodes_truenodeids");
    auto no = sized(integers(node_, "nodes_falsenodeids"), count, "nodes_falsenodeids");
    auto missing = integers(node_, "nodes_missing_value_tracks_true");
    if (!missing.empty())
      missing = sized(std::move(missing), count, "nodes_missing_value_tracks_true");
    for (size_t i = 0, split = 0; i < count; ++i)
      if (modes_[i] >= 0)
        ensemble_.splits[split++] = {features[i],
                                     modes_[i],
                                     placeOf(trees_[i], yes[i]),
                                     placeOf(trees_[i], no[i]),
                                     values[i],
                                     !missing.empty() && missing[i] == 1,
                                     {}};
  }

  void readWeights(const std::string &held) {
    auto trees = integers(node_, held + "_treeids");
    auto nodes = sized(integers(node_, held + "_nodeids"), trees.size(), "nodeids of leaves");
    auto targets = sized(integers(node_, held + "_ids"), trees.size(), "ids of leaves");
    auto weights = sized(floats(node_, held + "_weights"), trees.size(), "weights of leaves");
    for (size_t i = 0; i < trees.size(); ++i) {
      int64_t at = placeOf(trees[i], nodes[i]);
      if (at >= 0)
        broken(
            fmt::format("tree {} has a weight at node {}, which is no leaf", trees[i], nodes[i]));
      ensemble_.leaves[size_t(-1 - at)].push_back({targets[i], weights[i]});
    }
  }

  const onnx::NodeProto &node_;
  OnnxEnsemble &ensemble_;
  std::vector<int64_t> trees_, numbers_, modes_;
  std::unordered_map<Name, int64_t, HashOfName> places_;
  std::unordered_map<int64_t, bool> seen_;
};

/// The sets of the splits that test membership, each ended by NaN.
void readMembers(const onnx::NodeProto &node, OnnxEnsemble &ensemble) {
  auto members = floats(node, "membership_values");
  auto at = members.begin();
  for (OnnxEnsemble::Split &split : ensemble.splits) {
    if (split.mode != OnnxEnsemble::Member)
      continue;
    auto end = std::find_if(at, members.end(), [](double value) { return std::isnan(value); });
    if (end == members.end())
      broken("has a test of membership without a set");
    split.members.assign(at, end);
    at = end + 1;
  }
}

/// Of opset 5.
void readCounted(const onnx::NodeProto &node, OnnxEnsemble &ensemble) {
  auto features = integers(node, "nodes_featureids");
  size_t count = features.size();
  auto values = sized(floats(node, "nodes_splits"), count, "nodes_splits");
  auto modes = sized(integers(node, "nodes_modes"), count, "nodes_modes");
  auto yes = sized(integers(node, "nodes_truenodeids"), count, "nodes_truenodeids");
  auto no = sized(integers(node, "nodes_falsenodeids"), count, "nodes_falsenodeids");
  auto yesLeaf = sized(integers(node, "nodes_trueleafs"), count, "nodes_trueleafs");
  auto noLeaf = sized(integers(node, "nodes_falseleafs"), count, "nodes_falseleafs");
  auto missing = integers(node, "nodes_missing_value_tracks_true");
  if (!missing.empty())
    missing = sized(std::move(missing), count, "nodes_missing_value_tracks_true");
  auto targets = integers(node, "leaf_targetids");
  auto weights = sized(floats(node, "leaf_weights"), targets.size(), "leaf_weights");
  for (size_t i = 0; i < targets.size(); ++i)
    ensemble.leaves.push_back({{targets[i], weights[i]}});
  auto child = [&](int64_t number, int64_t isLeaf) {
    auto most = int64_t(isLeaf ? targets.size() : count);
    if (number < 0 || number >= most)
      broken(fmt::format("has the child {}, but there are {}", number, most));
    return isLeaf ? -1 - number : number;
  };
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] < 0 || modes[i] > OnnxEnsemble::Member)
      broken(fmt::format("has a node of the mode {}", modes[i]));
    ensemble.splits.push_back({features[i],
                               modes[i],
                               child(yes[i], yesLeaf[i]),
                               child(no[i], noLeaf[i]),
                               values[i],
                               !missing.empty() && missing[i] == 1,
                               {}});
  }
  for (int64_t root : integers(node, "tree_roots"))
    ensemble.roots.push_back(child(root, 0));
  readMembers(node, ensemble);
}

void readAggregate(const onnx::NodeProto &node, bool isCounted, OnnxEnsemble &ensemble) {
  static constexpr const char *kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                "PROBIT"};
  std::string aggregate = text(node, "aggregate_function", "SUM");
  if (isCounted) {
    int64_t number = integer(node, "aggregate_function", 1);
    int64_t transform = integer(node, "post_transform", 0);
    if (transform < 0 || transform >= std::ssize(kTransforms))
      broken(fmt::format("has the post_transform {}", transform));
    aggregate = number == 0 ? "AVERAGE" : number == 1 ? "SUM" : "MIN";
    ensemble.transform = kTransforms[transform];
  } else {
    ensemble.transform = text(node, "post_transform", "NONE");
  }
  if (aggregate != "SUM" && aggregate != "AVERAGE")
    throw Broken{
        unsupported("its trees are joined by " + aggregate + "; a forest has sums and averages")};
  ensemble.isAverage = aggregate == "AVERAGE";
}

OnnxEnsemble ensembleOf(const onnx::NodeProto &node) {
  OnnxEnsemble ensemble;
  bool isCounted = node.op_type() == "TreeEnsemble";
  ensemble.isClassifier = node.op_type() == "TreeEnsembleClassifier";
  readAggregate(node, isCounted, ensemble);
  if (isCounted)
    readCounted(node, ensemble);
  else
    NamedReader(node, ensemble).read();
  ensemble.targets = integer(node, "n_targets", 1);
  if (ensemble.isClassifier) {
    ensemble.labels = integers(node, "classlabels_int64s");
    const auto *names = find(node, "classlabels_strings");
    for (int i = 0; names && i < names->strings().size(); ++i)
      ensemble.labels.push_back(i);
    ensemble.targets = int64_t(ensemble.labels.size());
    if (ensemble.targets < 2)
      broken("has not two class labels or more");
  }
  ensemble.base = floats(node, "base_values");
  return ensemble;
}

} // namespace

bool isTreeEnsemble(const onnx::NodeProto &node) {
  return node.domain() == "ai.onnx.ml" && node.op_type().starts_with("TreeEnsemble");
}

Result<OnnxEnsemble> readEnsemble(const onnx::NodeProto &node) {
  try {
    return ensembleOf(node);
  } catch (const Broken &error) {
    return error.status;
  }
}

} // namespace tensmith::trees
