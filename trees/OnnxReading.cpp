// A forest out of an ONNX model whose one computation is an ensemble of trees; see OnnxEnsemble.h
// for its attributes.
//
// Tests become "left where x is less": x <= t by the next f32 above t, tests the other way round by
// changing places of the children. A test of equality is a split of a set of categories. A leaf
// holds one weight here; where leaves of a tree hold weights of several targets, the tree is
// repeated for each. The size of what comes of it is held to that of the file.
#include "trees/ModelFormats.h"
#include "trees/Objective.h"
#include "trees/OnnxEnsemble.h"
#include "trees/TreeAssembly.h"
#include "trees/Verification.h"

#include <onnx-ml.pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <set>

namespace tensmith::trees {
namespace {

struct Broken {
  Status status;
};

[[noreturn]] void broken(std::string what) {
  throw Broken{{StatusCode::InvalidModel, std::move(what)}};
}

/// What may stand around the trees without changing what they say of rows; an objective by the
/// operator that is its transform.
const std::set<std::string> kHarmless = {
    "Cast",    "Identity", "ZipMap", "Normalizer", "Reshape", "ArgMax", "ArrayFeatureExtractor",
    "Constant"};
const std::pair<const char *, const char *> kTransforms[] = {
    {"Sigmoid", "LOGISTIC"}, {"Softmax", "SOFTMAX"}, {"Exp", "EXP"}};

/// What writeOnnx puts there besides; of others it could mean anything.
const std::set<std::string> kOwn = {"Add", "Sub",         "Concat", "Gather",
                                    "Abs", "LessOrEqual", "Where"};

struct Found {
  const onnx::NodeProto *trees = nullptr;
  std::string transform;
};

Found findTrees(const onnx::GraphProto &graph, bool isOwn) {
  Found found;
  for (const onnx::NodeProto &node : graph.node()) {
    if (isTreeEnsemble(node)) {
      if (found.trees)
        throw Broken{unsupported("has several ensembles of trees")};
      found.trees = &node;
      continue;
    }
    bool isTransform = false;
    for (auto [name, transform] : kTransforms)
      if (found.trees && node.op_type() == name && found.transform.empty()) {
        found.transform = transform;
        isTransform = true;
      }
    bool isHarmless =
        kHarmless.contains(node.op_type()) || (isOwn && kOwn.contains(node.op_type()));
    if (!isTransform && !isHarmless)
      throw Broken{unsupported("computes '" + node.op_type() +
                               "' beside its trees, which a forest has no place for; compile the "
                               "model as it is: tensmith compile model.onnx")};
  }
  if (!found.trees)
    broken("has no ensemble of trees");
  return found;
}

class ForestBuilder {
public:
  ForestBuilder(const OnnxEnsemble &ensemble, int64_t mostNodes)
      : ensemble_(ensemble), mostNodes_(mostNodes) {}

  /// Trees, channels, scales and the features that are tested.
  void build(Forest &forest) {
    for (int64_t root : ensemble_.roots) {
      std::set<int64_t> targets;
      collectTargets(root, targets);
      for (int64_t target : targets.empty() ? std::set<int64_t>{0} : targets)
        addTree(root, target, forest);
    }
    double scale = ensemble_.isAverage ? 1 / double(ensemble_.roots.size()) : 1;
    forest.scale.assign(forest.trees.size(), float(scale));
  }

private:
  static constexpr int32_t kMostFeature = (1 << 22) - 1;

  /// Leaves have numbers of their own for each way to them, since a root without a test is written
  /// as a split whose both sides are one leaf: behind all splits, two a split.
  int64_t numberOf(int64_t at, int64_t split, bool yes) const {
    return at >= 0 ? at : int64_t(ensemble_.splits.size()) + 1 + 2 * split + yes;
  }
  int64_t leafOf(int64_t number) const {
    int64_t way = number - int64_t(ensemble_.splits.size()) - 1;
    const OnnxEnsemble::Split &split = ensemble_.splits[size_t(way / 2)];
    return -1 - (way % 2 ? split.yes : split.no);
  }

  void collectTargets(int64_t root, std::set<int64_t> &targets) {
    std::vector<int64_t> waiting{root};
    while (!waiting.empty()) {
      int64_t at = waiting.back();
      waiting.pop_back();
      // Trees have no node in common: all ways together pass each split and its sides once.
      if (++visited_ > 3 * int64_t(ensemble_.splits.size()) + int64_t(ensemble_.roots.size()))
        broken("has a node that is reached twice");
      if (at >= 0) {
        waiting.push_back(ensemble_.splits[size_t(at)].yes);
        waiting.push_back(ensemble_.splits[size_t(at)].no);
        continue;
      }
      for (const OnnxEnsemble::Weight &weight : ensemble_.leaves[size_t(-1 - at)])
        targets.insert(weight.target);
    }
  }

  void addTree(int64_t root, int64_t target, Forest &forest) {
    if (target < 0 || target >= ensemble_.targets)
      broken(fmt::format("has a weight of the target {}, but there are {}", target,
                         ensemble_.targets));
    int64_t count = 3 * int64_t(ensemble_.splits.size()) + 1;
    auto tree =
        root < 0 ? Result<Tree>(leafAlone(-1 - root, target))
                 : assembleTree(
                       root, count, [&](int64_t number) { return nodeAt(number, target, forest); });
    if (!tree.ok())
      throw Broken{tree.status()};
    forest.trees.push_back(std::move(*tree));
    forest.channel.push_back(int32_t(target));
  }

  float valueOf(int64_t leaf, int64_t target) const {
    const auto &weights = ensemble_.leaves[size_t(leaf)];
    auto found = std::ranges::lower_bound(weights, target, {}, &OnnxEnsemble::Weight::target);
    double sum = 0;
    for (; found != weights.end() && found->target == target; ++found)
      sum += found->value;
    return float(sum);
  }

  Tree leafAlone(int64_t leaf, int64_t target) const {
    Tree tree;
    appendLeaf(tree, valueOf(leaf, target));
    return tree;
  }

  Result<GivenNode> nodeAt(int64_t number, int64_t target, Forest &forest) {
    if (--mostNodes_ < 0)
      return unsupported("has leaves of so many targets that its trees would outgrow the file");
    GivenNode node;
    if (number >= int64_t(ensemble_.splits.size())) {
      node.value = valueOf(leafOf(number), target);
      return node;
    }
    const OnnxEnsemble::Split &split = ensemble_.splits[size_t(number)];
    if (split.feature < 0 || split.feature > kMostFeature)
      broken(fmt::format("tests the feature {}", split.feature));
    if (size_t(split.feature) >= forest.features.size())
      forest.features.resize(size_t(split.feature) + 1);
    node.feature = int32_t(split.feature);
    node.left = numberOf(split.yes, number, true);
    node.right = numberOf(split.no, number, false);
    node.missingLeft = split.missingPasses;
    readTest(split, node, forest.features[size_t(split.feature)]);
    return node;
  }

  void readTest(const OnnxEnsemble::Split &split, GivenNode &node, Feature &feature) {
    bool isSwapped = split.mode == OnnxEnsemble::GreaterOrEqual ||
                     split.mode == OnnxEnsemble::Greater || split.mode == OnnxEnsemble::NotEqual;
    bool isClosed = split.mode == OnnxEnsemble::LessOrEqual || split.mode == OnnxEnsemble::Greater;
    if (split.mode <= OnnxEnsemble::Greater)
      // x < t of f64 is x < the least f32 that is not below t.
      node.threshold = isClosed ? floatAbove(split.threshold)
                                : floatAbove(std::nextafter(
                                      split.threshold, -std::numeric_limits<double>::infinity()));
    else if (split.mode == OnnxEnsemble::Member)
      node.categories = categoriesOf(split.members, feature);
    else
      node.categories = categoriesOf({split.threshold}, feature);
    if (!isSwapped)
      return;
    std::swap(node.left, node.right);
    node.missingLeft = !node.missingLeft;
  }

  /// What is no category, no value of a categorical feature equals.
  static std::vector<int32_t> categoriesOf(const std::vector<double> &members, Feature &feature) {
    std::vector<int32_t> result;
    feature.categories = kMostCategories;
    for (double member : members)
      if (member >= 0 && member < double(kMostCategories) && member == std::floor(member))
        result.push_back(int32_t(member));
    return result;
  }

  const OnnxEnsemble &ensemble_;
  int64_t mostNodes_, visited_ = 0;
};

int64_t featuresOf(const onnx::GraphProto &graph) {
  if (graph.input_size() != 1)
    throw Broken{unsupported("has several inputs; a forest takes one of rows and features")};
  const auto &shape = graph.input(0).type().tensor_type().shape();
  int64_t count = shape.dim_size() == 2 ? shape.dim(1).dim_value() : 0;
  return count > 0 && count <= int64_t(1) << 22 ? count : 0;
}

/// The objective whose transform it is, and the classes.
void readTask(const OnnxEnsemble &ensemble, const std::string &transform, Forest &forest) {
  const char *like = transform == "NONE"       ? "reg:squarederror"
                     : transform == "LOGISTIC" ? "binary:logistic"
                     : transform == "SOFTMAX"  ? "multi:softprob"
                     : transform == "EXP"      ? "count:poisson"
                                               : nullptr;
  const Objective *objective = like ? findObjective(like) : nullptr;
  if (!objective)
    throw Broken{unsupported("its post_transform '" + transform + "' is not known here")};
  forest.objective = objective->name;
  forest.classes = ensemble.labels;
  int64_t classes = transform == "LOGISTIC" ? 2 : transform == "SOFTMAX" ? forest.channels() : 0;
  for (int64_t label = 0;
       !ensemble.isClassifier && forest.channels() <= 2 && label < classes && classes > 1; ++label)
    forest.classes.push_back(label);
}

/// Of two classes, of which leaves name only one, the second's score is the one channel.
void joinTwoClasses(OnnxEnsemble &ensemble) {
  std::set<int64_t> named;
  for (const auto &leaf : ensemble.leaves)
    for (const OnnxEnsemble::Weight &weight : leaf)
      named.insert(weight.target);
  if (!ensemble.isClassifier || ensemble.targets != 2 || named.size() != 1)
    return;
  int64_t only = *named.begin();
  for (auto &leaf : ensemble.leaves)
    for (OnnxEnsemble::Weight &weight : leaf)
      weight.target = 0;
  ensemble.targets = 1;
  if (ensemble.base.size() == 2)
    ensemble.base = {ensemble.base[size_t(only)]};
  else if (only == 1)
    ensemble.base.clear(); // is the first's
}

/// Of writeOnnx's initialisers.
std::vector<double> ownFloats(const onnx::GraphProto &graph, std::string_view name) {
  std::vector<double> result;
  for (const onnx::TensorProto &tensor : graph.initializer())
    if (tensor.name() == name && tensor.data_type() == onnx::TensorProto::FLOAT)
      for (size_t at = 0; at + sizeof(float) <= tensor.raw_data().size(); at += sizeof(float)) {
        float value;
        std::memcpy(&value, tensor.raw_data().data() + at, sizeof value);
        result.push_back(value);
      }
  return result;
}

Forest forestOf(const onnx::ModelProto &model, int64_t bytes) {
  bool isOwn = model.producer_name() == kProducer;
  Found found = findTrees(model.graph(), isOwn);
  auto ensemble = readEnsemble(*found.trees);
  if (!ensemble.ok())
    throw Broken{ensemble.status()};
  joinTwoClasses(*ensemble);
  for (auto &leaf : ensemble->leaves)
    std::ranges::sort(leaf, {}, &OnnxEnsemble::Weight::target);
  if (ensemble->targets < 1 || ensemble->targets > kMostChannels)
    broken("has no targets, or more than 2^20");
  Forest forest;
  forest.baseScores = isOwn ? ownFloats(model.graph(), "base_scores") : ensemble->base;
  if (forest.baseScores.empty())
    forest.baseScores.assign(size_t(ensemble->targets), 0);
  if (int64_t(forest.baseScores.size()) != ensemble->targets)
    broken("has not a base value for each target");
  forest.features.resize(size_t(featuresOf(model.graph())));
  readTask(*ensemble, found.transform.empty() ? ensemble->transform : found.transform, forest);
  ForestBuilder(*ensemble, bytes + (1 << 16)).build(forest);
  auto band = isOwn ? ownFloats(model.graph(), "band") : std::vector<double>();
  for (size_t i = 0; i < std::min(band.size(), forest.features.size()); ++i)
    forest.features[i].zeroIsMissing = band[i] >= 0;
  return forest;
}

} // namespace

Result<Forest> readOnnx(std::string_view bytes) {
  onnx::ModelProto model;
  if (bytes.size() > size_t(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(bytes.data(), int(bytes.size())))
    return Status(StatusCode::InvalidModel, "is no ONNX model, or is damaged");
  try {
    Forest forest = forestOf(model, int64_t(bytes.size()));
    Status status = verifyForest(forest);
    return status.ok() ? Result<Forest>(std::move(forest)) : Result<Forest>(status);
  } catch (const Broken &error) {
    return error.status;
  }
}

} // namespace tensmith::trees
