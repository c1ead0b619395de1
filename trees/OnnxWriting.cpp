// A forest as an ONNX model: TreeEnsemble (ai.onnx.ml, opset 5), and the objective's transform by
// operators of the standard.
//
//   x ─(zeros that are missing become NaN)─▶ TreeEnsemble ─▶ + base scores ─▶ transform ─▶ results
//
// A split of categories is a test of membership. What is in no set goes where the test fails, and
// NaN fails it, unless the split says otherwise: where unseen categories go left, the test is
// whether the category is one of those that go right, and its sides change places. Scales are
// multiplied into leaves.
#include "trees/ModelFormats.h"
#include "trees/Objective.h"
#include "trees/Verification.h"

#include <onnx-ml.pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

namespace tensmith::trees {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

constexpr float kZeroBand = 1e-35f;
enum Mode : uint8_t { Less = 1, Member = 6 }; // of TreeEnsemble

template <typename T>
TensorProto tensor(int type, std::span<const T> values, bool isScalar = false) {
  TensorProto result;
  result.set_data_type(type);
  if (!isScalar)
    result.add_dims(int64_t(values.size()));
  result.set_raw_data(values.data(), values.size_bytes());
  return result;
}

TensorProto floats(std::span<const float> values) { return tensor(TensorProto::FLOAT, values); }

class GraphWriter {
public:
  explicit GraphWriter(onnx::GraphProto &graph) : graph_(graph) {}

  onnx::NodeProto &add(const char *type, std::vector<std::string> inputs,
                       const std::string &output) {
    onnx::NodeProto &node = *graph_.add_node();
    node.set_op_type(type);
    node.set_name(output);
    for (std::string &input : inputs)
      node.add_input(std::move(input));
    node.add_output(output);
    return node;
  }
  std::string constant(const std::string &name, TensorProto tensor) {
    tensor.set_name(name);
    *graph_.add_initializer() = std::move(tensor);
    return name;
  }
  /// `columns` 0: one number a row.
  static void describe(onnx::ValueInfoProto &port, const std::string &name, int type,
                       int64_t columns) {
    port.set_name(name);
    auto &tensorType = *port.mutable_type()->mutable_tensor_type();
    tensorType.set_elem_type(type);
    tensorType.mutable_shape()->add_dim()->set_dim_param("rows");
    if (columns > 0)
      tensorType.mutable_shape()->add_dim()->set_dim_value(columns);
  }

private:
  onnx::GraphProto &graph_;
};

AttributeProto &attribute(onnx::NodeProto &node, const char *name,
                          AttributeProto::AttributeType type) {
  AttributeProto &result = *node.add_attribute();
  result.set_name(name);
  result.set_type(type);
  return result;
}

void setInteger(onnx::NodeProto &node, const char *name, int64_t value) {
  attribute(node, name, AttributeProto::INT).set_i(value);
}
void setIntegers(onnx::NodeProto &node, const char *name, const std::vector<int64_t> &values) {
  AttributeProto &result = attribute(node, name, AttributeProto::INTS);
  result.mutable_ints()->Add(values.begin(), values.end());
}
void setTensor(onnx::NodeProto &node, const char *name, TensorProto tensor) {
  *attribute(node, name, AttributeProto::TENSOR).mutable_t() = std::move(tensor);
}

/// The lists of a TreeEnsemble's attributes.
class Ensemble {
public:
  explicit Ensemble(const Forest &forest) : forest_(forest) {
    auto count = countedTrees(forest);
    for (int64_t i = 0; i < count; ++i)
      add(forest.trees[size_t(i)], forest.channel[size_t(i)], forest.scale[size_t(i)]);
  }

  void give(onnx::NodeProto &node) const {
    node.set_domain("ai.onnx.ml");
    setInteger(node, "n_targets", forest_.channels());
    setInteger(node, "aggregate_function", 1); // sum
    setInteger(node, "post_transform", 0);
    setIntegers(node, "tree_roots", roots_);
    setIntegers(node, "nodes_featureids", features_);
    setTensor(node, "nodes_splits", floats(thresholds_));
    setTensor(node, "nodes_modes", tensor<uint8_t>(TensorProto::UINT8, modes_));
    setIntegers(node, "nodes_truenodeids", yes_);
    setIntegers(node, "nodes_falsenodeids", no_);
    setIntegers(node, "nodes_trueleafs", yesIsLeaf_);
    setIntegers(node, "nodes_falseleafs", noIsLeaf_);
    setIntegers(node, "nodes_missing_value_tracks_true", missing_);
    setIntegers(node, "leaf_targetids", targets_);
    setTensor(node, "leaf_weights", floats(weights_));
    if (!members_.empty())
      setTensor(node, "membership_values", floats(members_));
  }

private:
  struct Child {
    int64_t number;
    bool isLeaf;
  };

  void add(const Tree &tree, int32_t channel, float scale) {
    roots_.push_back(int64_t(features_.size()));
    std::vector<int64_t> place(size_t(tree.size()));
    auto splits = int64_t(features_.size());
    for (int32_t node = 0; node < tree.size(); ++node) {
      place[size_t(node)] = tree.isLeaf(node) ? int64_t(targets_.size()) : splits++;
      if (!tree.isLeaf(node))
        continue;
      targets_.push_back(channel);
      weights_.push_back(scale * tree.value[size_t(node)]);
    }
    auto child = [&](int32_t node) { return Child{place[size_t(node)], tree.isLeaf(node)}; };
    if (tree.isLeaf(0)) // a test both of whose sides are the leaf
      addSplit(0, 0, Less, child(0), child(0), false);
    for (int32_t node = 0; node < tree.size(); ++node)
      if (!tree.isLeaf(node))
        tree.isCategorical(node)
            ? addSet(tree, node, child(tree.left[size_t(node)]), child(tree.right[size_t(node)]))
            : addSplit(tree.feature[size_t(node)], tree.threshold[size_t(node)], Less,
                       child(tree.left[size_t(node)]), child(tree.right[size_t(node)]),
                       tree.missingLeft[size_t(node)]);
  }

  void addSet(const Tree &tree, int32_t node, Child left, Child right) {
    int32_t feature = tree.feature[size_t(node)];
    int64_t known = forest_.features[size_t(feature)].categories;
    auto begin = tree.categories.begin() + tree.categoryBegin[size_t(node)];
    auto end = tree.categories.begin() + tree.categoryEnd[size_t(node)];
    bool missingLeft = tree.missingLeft[size_t(node)];
    if (missingLeft && known < kMostCategories) {
      for (int32_t category = 0; category < known; ++category)
        if (!std::binary_search(begin, end, category))
          members_.push_back(float(category));
      addSplit(feature, 0, Member, right, left, false);
    } else {
      members_.insert(members_.end(), begin, end);
      addSplit(feature, 0, Member, left, right, missingLeft);
    }
    members_.push_back(std::numeric_limits<float>::quiet_NaN());
  }

  void addSplit(int32_t feature, float threshold, Mode mode, Child yes, Child no, bool missing) {
    features_.push_back(feature);
    thresholds_.push_back(threshold);
    modes_.push_back(mode);
    yes_.push_back(yes.number);
    no_.push_back(no.number);
    yesIsLeaf_.push_back(yes.isLeaf);
    noIsLeaf_.push_back(no.isLeaf);
    missing_.push_back(missing);
  }

  const Forest &forest_;
  std::vector<int64_t> roots_, features_, yes_, no_, yesIsLeaf_, noIsLeaf_, missing_, targets_;
  std::vector<float> thresholds_, weights_, members_;
  std::vector<uint8_t> modes_;
};

/// NaN in the place of zeros that are missing values.
std::string maskZeros(const Forest &forest, GraphWriter &writer) {
  std::vector<float> band;
  for (const Feature &feature : forest.features)
    band.push_back(feature.zeroIsMissing ? kZeroBand : -1);
  if (std::ranges::all_of(band, [](float width) { return width < 0; }))
    return "x";
  const float missing[] = {std::numeric_limits<float>::quiet_NaN()};
  writer.add("Abs", {"x"}, "magnitude");
  writer.add("LessOrEqual", {"magnitude", writer.constant("band", floats(band))}, "is_zero");
  std::string nan =
      writer.constant("nan", tensor<float>(TensorProto::FLOAT, missing, /*isScalar=*/true));
  writer.add("Where", {"is_zero", nan, "x"}, "values");
  return "values";
}

const char *transformOf(const std::string &objective) {
  const Objective *found = findObjective(objective);
  std::string name = found && found->xgboost ? found->xgboost : "";
  return name == "binary:logistic"                                                    ? "Sigmoid"
         : name == "multi:softprob"                                                   ? "Softmax"
         : name == "count:poisson" || name == "reg:tweedie" || name == "survival:cox" ? "Exp"
                                                                                      : "Identity";
}

void giveClasses(const Forest &forest, GraphWriter &writer, onnx::GraphProto &graph,
                 const std::string &scores) {
  auto classes = int64_t(forest.classes.size());
  std::string all = scores;
  if (forest.channels() == 1) {
    const float one[] = {1};
    std::string whole =
        writer.constant("one", tensor<float>(TensorProto::FLOAT, one, /*isScalar=*/true));
    writer.add("Sub", {whole, scores}, "of_first");
    setInteger(writer.add("Concat", {"of_first", scores}, "probabilities"), "axis", 1);
    all = "probabilities";
  } else {
    writer.add("Identity", {scores}, "probabilities");
  }
  onnx::NodeProto &largest = writer.add("ArgMax", {all}, "best");
  setInteger(largest, "axis", 1);
  setInteger(largest, "keepdims", 0);
  std::string labels =
      writer.constant("labels", tensor<int64_t>(TensorProto::INT64, forest.classes));
  writer.add("Gather", {labels, "best"}, "label");
  GraphWriter::describe(*graph.add_output(), "label", TensorProto::INT64, 0);
  GraphWriter::describe(*graph.add_output(), "probabilities", TensorProto::FLOAT, classes);
}

void fillGraph(const Forest &forest, OnnxResults results, onnx::GraphProto &graph) {
  GraphWriter writer(graph);
  graph.set_name("forest");
  GraphWriter::describe(*graph.add_input(), "x", TensorProto::FLOAT,
                        int64_t(forest.features.size()));
  std::string x = maskZeros(forest, writer);
  std::vector<float> base(forest.baseScores.begin(), forest.baseScores.end());
  std::string base0 = writer.constant("base_scores", floats(base));
  Ensemble(forest).give(writer.add("TreeEnsemble", {x}, "sums"));
  writer.add("Add", {"sums", base0}, "margin");
  if (results == OnnxResults::Outputs)
    return GraphWriter::describe(*graph.add_output(), "margin", TensorProto::FLOAT,
                                 forest.channels());
  bool isClassifier = results == OnnxResults::Task && !forest.classes.empty();
  std::string result = isClassifier ? "scores" : "y";
  onnx::NodeProto &transform = writer.add(transformOf(forest.objective), {"margin"}, result);
  if (transform.op_type() == "Softmax")
    setInteger(transform, "axis", 1);
  if (isClassifier)
    return giveClasses(forest, writer, graph, result);
  GraphWriter::describe(*graph.add_output(), "y", TensorProto::FLOAT, forest.channels());
}

} // namespace

Result<std::string> writeOnnx(const Forest &forest, OnnxResults results) {
  if (Status status = verifyForest(forest); !status.ok())
    return status;
  if (Status status = checkComplements(forest); !status.ok())
    return status;
  if (countedTrees(forest) == 0 || forest.features.empty())
    return unsupported("ONNX has no ensemble without a tree or a feature");
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.set_producer_name(kProducer);
  auto addOpset = [&](const char *domain, int64_t version) {
    onnx::OperatorSetIdProto &opset = *model.add_opset_import();
    opset.set_domain(domain);
    opset.set_version(version);
  };
  addOpset("", 18);
  addOpset("ai.onnx.ml", 5);
  fillGraph(forest, results, *model.mutable_graph());
  std::string bytes;
  if (model.ByteSizeLong() > size_t(std::numeric_limits<int>::max()) ||
      !model.SerializeToString(&bytes))
    return Status(StatusCode::ResourceExhausted, "the model would be larger than 2 GiB, which ONNX "
                                                 "files can't be");
  return bytes;
}

} // namespace tensmith::trees
