// A forest as a model of XGBoost's.
//
// A split of categories has there the set that goes right, and a category outside of it, known or
// not, goes left. So where unseen categories go left here, the set is what else is known; otherwise
// it is ours, and the children change places.
#include "trees/ModelFormats.h"
#include "trees/ModelText.h"
#include "trees/Objective.h"
#include "trees/Verification.h"
#include "trees/XgboostCategories.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace tensmith::trees {
namespace {

Document array() { return Document::array(); }

/// The number as XGBoost reads it back into an f32.
std::string textOf(double value) { return fmt::format("{}", float(value)); }

/// JSON has no infinity.
float finite(float value) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return std::clamp(value, -kMost, kMost);
}

struct Sets {
  Document categories = array(), nodes = array(), begins = array(), sizes = array();

  void add(int32_t node, const std::vector<int32_t> &set) {
    nodes.push_back(node);
    begins.push_back(categories.size());
    sizes.push_back(set.size());
    for (int32_t category : set)
      categories.push_back(category);
  }
};

/// What else is known of the feature.
std::vector<int32_t> complementOf(const Tree &tree, int32_t node, int64_t known) {
  std::vector<int32_t> result;
  int32_t at = tree.categoryBegin[node];
  for (int32_t category = 0; category < known; ++category)
    if (at < tree.categoryEnd[node] && tree.categories[size_t(at)] == category)
      ++at;
    else
      result.push_back(category);
  return result;
}

/// A split's children and default as they are written.
struct Sides {
  int32_t left, right;
  bool missingLeft;
};

Sides sidesOf(const Tree &tree, int32_t node, const Forest &forest, Sets &sets) {
  Sides sides{tree.left[node], tree.right[node], tree.missingLeft[node] != 0};
  if (!tree.isCategorical(node))
    return sides;
  int64_t known = forest.features[size_t(tree.feature[node])].categories;
  if (sides.missingLeft && known < kMostCategories) {
    sets.add(node, complementOf(tree, node, known));
    return sides;
  }
  sets.add(node, {tree.categories.begin() + tree.categoryBegin[node],
                  tree.categories.begin() + tree.categoryEnd[node]});
  return {sides.right, sides.left, !sides.missingLeft};
}

Document parametersOf(int64_t features, int32_t nodes) {
  return {{"num_deleted", "0"},
          {"num_feature", std::to_string(features)},
          {"num_nodes", std::to_string(nodes)},
          {"size_leaf_vector", "1"}};
}

Document treeJson(const Tree &tree, size_t id, const Forest &forest) {
  Document json;
  Sets sets;
  std::vector<int32_t> parents(size_t(tree.size()), std::numeric_limits<int32_t>::max());
  for (const char *key :
       {"base_weights", "default_left", "left_children", "loss_changes", "right_children",
        "split_conditions", "split_indices", "split_type", "sum_hessian"})
    json[key] = array();
  for (int32_t node = 0; node < tree.size(); ++node) {
    bool isLeaf = tree.isLeaf(node);
    Sides sides = isLeaf ? Sides{-1, -1, false} : sidesOf(tree, node, forest, sets);
    if (!isLeaf)
      parents[size_t(sides.left)] = parents[size_t(sides.right)] = node;
    json["base_weights"].push_back(tree.value[node]);
    json["default_left"].push_back(int(sides.missingLeft));
    json["left_children"].push_back(sides.left);
    json["right_children"].push_back(sides.right);
    json["loss_changes"].push_back(isLeaf || !std::isfinite(tree.gain[node]) ? 0 : tree.gain[node]);
    json["split_conditions"].push_back(isLeaf ? tree.value[node] : finite(tree.threshold[node]));
    json["split_indices"].push_back(isLeaf ? 0 : tree.feature[node]);
    json["split_type"].push_back(int(!isLeaf && tree.isCategorical(node)));
    json["sum_hessian"].push_back(finite(tree.cover[node]));
  }
  json["parents"] = parents;
  json["categories"] = std::move(sets.categories);
  json["categories_nodes"] = std::move(sets.nodes);
  json["categories_segments"] = std::move(sets.begins);
  json["categories_sizes"] = std::move(sets.sizes);
  json["id"] = id;
  json["tree_param"] = parametersOf(int64_t(forest.features.size()), tree.size());
  return json;
}

Document boosterJson(const Forest &forest) {
  Document rounds = array();
  for (size_t i = 0; i <= forest.trees.size(); i += size_t(forest.channels()))
    rounds.push_back(i);
  Document model = {
      {"gbtree_model_param",
       {{"num_parallel_tree", "1"}, {"num_trees", std::to_string(forest.trees.size())}}},
      {"iteration_indptr", std::move(rounds)},
      {"tree_info", forest.channel},
      {"trees", array()}};
  if (Document categories = xgboostCategories(forest); !categories.empty())
    model["cats"] = std::move(categories);
  for (size_t i = 0; i < forest.trees.size(); ++i)
    model["trees"].push_back(treeJson(forest.trees[i], i, forest));
  Document booster = {{"model", std::move(model)}, {"name", "gbtree"}};
  if (std::ranges::all_of(forest.scale, [](float scale) { return scale == 1; }))
    return booster;
  return {{"gbtree", std::move(booster)}, {"name", "dart"}, {"weight_drop", forest.scale}};
}

/// The parameters that XGBoost doesn't load the objective without.
Document objectiveJson(const Objective &objective, int64_t channels) {
  static const std::map<std::string, Document> kParameters = {
      {"reg:squarederror", {{"reg_loss_param", {{"scale_pos_weight", "1"}}}}},
      {"binary:logistic", {{"reg_loss_param", {{"scale_pos_weight", "1"}}}}},
      {"count:poisson", {{"poisson_regression_param", {{"max_delta_step", "0.7"}}}}},
      {"reg:tweedie", {{"tweedie_regression_param", {{"tweedie_variance_power", "1.5"}}}}},
      {"reg:quantileerror", {{"quantile_loss_param", {{"quantile_alpha", "[0.5]"}}}}},
      {"reg:pseudohubererror", {{"pseudo_huber_param", {{"huber_slope", "1"}}}}},
      {"rank:ndcg", {{"lambdarank_param", Document::object()}}},
      {"rank:pairwise", {{"lambdarank_param", Document::object()}}}};
  Document json = {{"name", objective.xgboost}};
  if (auto found = kParameters.find(objective.xgboost); found != kParameters.end())
    json.update(found->second);
  if (objective.task == Objective::Task::Classes)
    json["softmax_multiclass_param"] = {{"num_class", std::to_string(channels)}};
  return json;
}

/// Scores are predictions there, by channel where they differ; XGBoost before 3.1 reads one alone.
std::string baseScoreText(const Forest &forest, const Objective &objective) {
  std::vector<std::string> texts;
  for (double score : forest.baseScores) {
    auto prediction = float(score);
    if (objective.task != Objective::Task::Classes)
      objective.transform(&prediction, 1);
    texts.push_back(textOf(prediction));
  }
  if (std::ranges::all_of(texts, [&](const std::string &text) { return text == texts[0]; }))
    return texts[0];
  return "[" + fmt::format("{}", fmt::join(texts, ",")) + "]";
}

Document namesJson(const Forest &forest) {
  Document names = array();
  for (const Feature &feature : forest.features)
    if (!feature.name.empty())
      names.push_back(feature.name);
  return names.size() == forest.features.size() ? names : array();
}

Document typesJson(const Forest &forest) {
  auto isCategory = [](const Feature &feature) { return feature.categories > 0; };
  Document types = array();
  if (std::ranges::any_of(forest.features, isCategory))
    for (const Feature &feature : forest.features)
      types.push_back(isCategory(feature) ? "c" : "float");
  return types;
}

Document documentOf(const Forest &forest, const Objective &objective) {
  bool areClasses = objective.task == Objective::Task::Classes;
  std::string channels = std::to_string(forest.channels());
  Document attributes = Document::object();
  if (forest.bestRound >= 0)
    attributes["best_iteration"] = std::to_string(forest.bestRound);
  if (!forest.classNames.empty())
    attributes[kClassNames] =
        Document(forest.classNames).dump(-1, ' ', false, Document::error_handler_t::replace);
  Document learner = {{"attributes", std::move(attributes)},
                      {"feature_names", namesJson(forest)},
                      {"feature_types", typesJson(forest)},
                      {"gradient_booster", boosterJson(forest)},
                      {"learner_model_param",
                       {{"base_score", baseScoreText(forest, objective)},
                        {"boost_from_average", "1"},
                        {"num_class", areClasses ? channels : "0"},
                        {"num_feature", std::to_string(forest.features.size())},
                        {"num_target", areClasses ? "1" : channels}}},
                      {"objective", objectiveJson(objective, forest.channels())}};
  return {{"learner", std::move(learner)}, {"version", {2, 1, 0}}};
}

char elementTypeOf(std::string_view key) {
  for (std::string_view floats :
       {"base_weights", "loss_changes", "split_conditions", "sum_hessian"})
    if (key == floats)
      return 'd';
  for (std::string_view bytes : {"default_left", "split_type"})
    if (key == bytes)
      return 'U';
  for (std::string_view longs : {"categories_segments", "categories_sizes"})
    if (key == longs)
      return 'L';
  for (std::string_view integers : {"categories", "categories_nodes", "left_children", "parents",
                                    "right_children", "split_indices"})
    if (key == integers)
      return 'l';
  return 0;
}

Status problemOf(const Forest &forest, const Objective *objective) {
  if (!objective || !objective->xgboost)
    return unsupported("XGBoost has no objective like '" + forest.objective + "'");
  for (const Feature &feature : forest.features)
    if (feature.zeroIsMissing)
      return unsupported(
          "zeros are missing values in this forest, which XGBoost's files can't say; "
          "write ONNX instead");
  for (size_t i = 0; i < forest.channel.size(); ++i)
    if (forest.channel[i] != int64_t(i) % forest.channels())
      return unsupported("XGBoost takes rounds of a tree for each channel, in order; write ONNX "
                         "instead");
  if (int64_t(forest.trees.size()) % forest.channels() != 0)
    return unsupported("XGBoost takes whole rounds, of a tree for each channel");
  return {};
}

} // namespace

Result<std::string> writeXgboost(const Forest &forest, XgboostForm form) {
  if (Status status = verifyForest(forest); !status.ok())
    return status;
  if (Status status = checkComplements(forest); !status.ok())
    return status;
  const Objective *objective = findObjective(forest.objective);
  if (Status status = problemOf(forest, objective); !status.ok())
    return status;
  Document document = documentOf(forest, *objective);
  // A name that is not UTF-8 gets replacement characters.
  return form == XgboostForm::Json
             ? document.dump(-1, ' ', false, Document::error_handler_t::replace)
             : writeUbjson(document, elementTypeOf);
}

} // namespace tensmith::trees
