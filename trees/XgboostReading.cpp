// XGBoost's models, JSON or UBJSON (doc/model.schema of its repository says what is where).
//
// A split of categories has there the set that goes right, and all else goes left: its children
// change places here. Nothing says which categories training saw, so that no category is unseen.
#include "trees/ModelFormats.h"
#include "trees/ModelText.h"
#include "trees/Objective.h"
#include "trees/TreeAssembly.h"
#include "trees/Verification.h"
#include "trees/XgboostCategories.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace tensmith::trees {
namespace {

/// A hostile file says any number in a few bytes, and each feature takes some memory.
constexpr int64_t kMostFeaturesHere = int64_t(1) << 22;

/// Thrown within this file, at whatever is not there or has another type.
struct Broken {
  Status status;
};

[[noreturn]] void broken(std::string what) {
  throw Broken{{StatusCode::InvalidModel, std::move(what)}};
}

const Document *find(const Document &object, const char *key) {
  auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nullptr : &*found;
}

const Document &need(const Document &object, const char *key) {
  const Document *found = find(object, key);
  if (!found)
    broken(fmt::format("has no '{}'; is it a model that XGBoost saved as JSON or UBJSON?", key));
  return *found;
}

const Document &needArray(const Document &object, const char *key) {
  const Document &array = need(object, key);
  if (!array.is_array())
    broken(fmt::format("'{}' is no array", key));
  return array;
}

double numberIn(std::string_view text, const char *key) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    broken(fmt::format("'{}' is no number", key));
  return value;
}

/// XGBoost writes parameters as strings.
double numberAt(const Document &object, const char *key, double otherwise) {
  const Document *value = find(object, key);
  if (!value)
    return otherwise;
  if (value->is_number())
    return value->get<double>();
  if (!value->is_string())
    broken(fmt::format("'{}' is no number", key));
  return numberIn(value->get_ref<const std::string &>(), key);
}

int64_t countAt(const Document &object, const char *key, int64_t otherwise, int64_t most) {
  double value = numberAt(object, key, double(otherwise));
  if (!(value >= 0 && value <= double(most)))
    broken(fmt::format("'{}' is {}, not from 0 to {}", key, value, most));
  return int64_t(value);
}

std::string textAt(const Document &object, const char *key) {
  const Document &value = need(object, key);
  if (!value.is_string())
    broken(fmt::format("'{}' is no text", key));
  return value.get<std::string>();
}

template <typename T> std::vector<T> numbers(const Document &tree, const char *key, int64_t count) {
  const Document &array = needArray(tree, key);
  if (count >= 0 && int64_t(array.size()) != count)
    broken(fmt::format("'{}' has {} elements, but there are {} nodes", key, array.size(), count));
  std::vector<T> result;
  result.reserve(array.size());
  for (const Document &element : array) {
    if (!element.is_number() && !element.is_boolean())
      broken(fmt::format("'{}' has an element that is no number", key));
    double value = element.is_boolean() ? element.get<bool>() : element.get<double>();
    if constexpr (std::is_integral_v<T>)
      if (!(value >= -1 && value <= double(std::numeric_limits<int32_t>::max())))
        value = -2; // in no range of indices
    result.push_back(T(value));
  }
  return result;
}

/// The sets of a tree, by node.
std::map<int64_t, std::vector<int32_t>> setsOf(const Document &tree) {
  std::map<int64_t, std::vector<int32_t>> sets;
  if (!find(tree, "categories_nodes"))
    return sets;
  auto nodes = numbers<int64_t>(tree, "categories_nodes", -1);
  auto begins = numbers<int64_t>(tree, "categories_segments", int64_t(nodes.size()));
  auto sizes = numbers<int64_t>(tree, "categories_sizes", int64_t(nodes.size()));
  auto categories = numbers<int32_t>(tree, "categories", -1);
  int64_t members = 0; // sets don't share what they hold
  for (size_t i = 0; i < nodes.size(); ++i) {
    members += std::max<int64_t>(sizes[i], 0);
    if (begins[i] < 0 || sizes[i] < 0 || begins[i] + sizes[i] > int64_t(categories.size()) ||
        members > int64_t(categories.size()))
      broken(fmt::format("node {} has a set of categories that is not there", nodes[i]));
    auto begin = categories.begin() + begins[i];
    if (!sets.try_emplace(nodes[i], begin, begin + sizes[i]).second)
      broken(fmt::format("node {} has two sets of categories", nodes[i]));
  }
  return sets;
}

Tree treeOf(const Document &json) {
  const Document &parameters = need(json, "tree_param");
  if (countAt(parameters, "size_leaf_vector", 1, kMostChannels) > 1)
    throw Broken{unsupported("its leaves are vectors (multi_strategy='multi_output_tree'); train "
                             "with 'one_output_per_tree'")};
  auto left = numbers<int64_t>(json, "left_children", -1);
  auto count = int64_t(left.size());
  auto right = numbers<int64_t>(json, "right_children", count);
  auto features = numbers<int32_t>(json, "split_indices", count);
  auto conditions = numbers<float>(json, "split_conditions", count);
  auto missingLeft = numbers<int32_t>(json, "default_left", count);
  auto gains = numbers<float>(json, "loss_changes", count);
  auto covers = numbers<float>(json, "sum_hessian", count);
  auto weights = numbers<float>(json, "base_weights", count);
  auto types = find(json, "split_type") ? numbers<int32_t>(json, "split_type", count)
                                        : std::vector<int32_t>(size_t(count), 0);
  auto sets = setsOf(json);
  auto nodeAt = [&](int64_t number) -> Result<GivenNode> {
    auto i = size_t(number);
    GivenNode node;
    node.cover = covers[i];
    if (left[i] == -1) {
      node.value = conditions[i];
      return node;
    }
    node.value = std::isfinite(weights[i]) ? weights[i] : 0;
    node.gain = gains[i];
    node.feature = features[i] < 0 ? std::numeric_limits<int32_t>::max() : features[i];
    node.threshold = conditions[i];
    node.left = left[i];
    node.right = right[i];
    node.missingLeft = missingLeft[i] == 1;
    if (types[i] != 1)
      return node;
    auto set = sets.find(number);
    node.categories = set == sets.end() ? std::vector<int32_t>() : set->second;
    std::swap(node.left, node.right);
    node.missingLeft = !node.missingLeft;
    return node;
  };
  auto tree = assembleTree(0, count, nodeAt);
  if (!tree.ok())
    throw Broken{tree.status()};
  return std::move(*tree);
}

/// Objectives of XGBoost's that have none of that name here, and one whose transform is the same:
/// all that a forest needs to be predicted by.
const char *objectiveLike(const std::string &name) {
  static const std::map<std::string, const char *> kAlike = {
      {"reg:linear", "reg:squarederror"},
      {"reg:squaredlogerror", "reg:squarederror"},
      {"reg:logistic", "binary:logistic"},
      {"binary:logitraw", "reg:squarederror"},
      {"reg:gamma", "count:poisson"},
      {"multi:softmax", "multi:softprob"},
      {"rank:map", "rank:ndcg"},
      {"survival:aft", "count:poisson"},
      {"reg:expectileerror", "reg:squarederror"}};
  auto found = kAlike.find(name);
  return found == kAlike.end() ? nullptr : found->second;
}

const Objective &objectiveOf(const std::string &name) {
  const Objective *found = findObjective(name);
  if (const char *like = objectiveLike(name); !found && like)
    found = findObjective(like);
  if (!found)
    throw Broken{unsupported("its objective '" + name +
                             "' is not known here; export predictions of 'reg:squarederror' and "
                             "transform them yourself")};
  return *found;
}

/// "0.5", and since XGBoost 3.1 "[5E-1,2E-1]".
std::vector<double> baseScoresOf(const Document &parameters, const Objective &objective,
                                 int64_t channels) {
  std::vector<double> scores;
  const Document *given = find(parameters, "base_score");
  if (given && given->is_string() && given->get_ref<const std::string &>().starts_with('[')) {
    std::string_view text = given->get_ref<const std::string &>();
    if (!text.ends_with(']'))
      broken("'base_score' is not closed");
    text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
      size_t end = std::min(text.find(','), text.size());
      scores.push_back(numberIn(text.substr(0, end), "base_score"));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  } else {
    scores.push_back(numberAt(parameters, "base_score", 0.5));
  }
  if (scores.size() == 1)
    scores.resize(size_t(channels), scores[0]);
  if (int64_t(scores.size()) != channels)
    broken(fmt::format("'base_score' has {} numbers, but there are {} channels", scores.size(),
                       channels));
  for (double &score : scores)
    score = objective.inverse(score);
  return scores;
}

void readFeatures(const Document &learner, int64_t count, Forest &forest) {
  forest.features.resize(size_t(count));
  auto texts = [&](const char *key) -> const Document * {
    const Document *array = find(learner, key);
    if (!array || !array->is_array() || array->empty())
      return nullptr;
    if (int64_t(array->size()) != count)
      broken(fmt::format("'{}' has not an element for each feature", key));
    return array;
  };
  if (const Document *names = texts("feature_names"))
    for (int64_t i = 0; i < count; ++i)
      forest.features[size_t(i)].name =
          (*names)[size_t(i)].is_string() ? (*names)[size_t(i)].get<std::string>() : "";
  if (const Document *types = texts("feature_types"))
    for (int64_t i = 0; i < count; ++i)
      if ((*types)[size_t(i)] == "c")
        forest.features[size_t(i)].categories = kMostCategories;
  for (const Tree &tree : forest.trees)
    for (int32_t node = 0; node < tree.size(); ++node)
      if (tree.isCategorical(node) && tree.feature[node] < count)
        forest.features[size_t(tree.feature[node])].categories = kMostCategories;
}

void readTrees(const Document &booster, const Document &learner, Forest &forest) {
  const Document &model = need(booster, "model");
  auto channels = numbers<int32_t>(model, "tree_info", -1);
  for (const Document &tree : needArray(model, "trees"))
    try {
      forest.trees.push_back(treeOf(tree));
    } catch (const Broken &error) {
      throw Broken{error.status.within(fmt::format("tree {}", forest.trees.size()))};
    }
  forest.channel.assign(channels.begin(), channels.end());
  forest.scale.assign(forest.trees.size(), 1);
  const Document *parameters = find(model, "gbtree_model_param");
  int64_t parallel = parameters ? countAt(*parameters, "num_parallel_tree", 1, 1 << 20) : 1;
  const Document *attributes = find(learner, "attributes");
  if (attributes && parallel == 1 && find(*attributes, "best_iteration"))
    forest.bestRound = countAt(*attributes, "best_iteration", 0, 1 << 30);
}

Forest forestOf(const Document &document) {
  const Document &learner = need(document, "learner");
  const Document *booster = &need(learner, "gradient_booster");
  std::string name = textAt(*booster, "name");
  const Document *drop = nullptr;
  if (name == "dart") {
    drop = &needArray(*booster, "weight_drop");
    booster = &need(*booster, "gbtree");
  } else if (name != "gbtree") {
    throw Broken{unsupported("its booster is '" + name + "'; gbtree and dart are trees")};
  }
  Forest forest;
  const Document &parameters = need(learner, "learner_model_param");
  const Objective &objective = objectiveOf(textAt(need(learner, "objective"), "name"));
  forest.objective = objective.name;
  readTrees(*booster, learner, forest);
  readFeatures(learner, countAt(parameters, "num_feature", 0, kMostFeaturesHere), forest);
  int64_t classes = countAt(parameters, "num_class", 0, kMostChannels);
  int64_t targets = countAt(parameters, "num_target", 1, kMostChannels);
  forest.baseScores = baseScoresOf(parameters, objective, std::max({classes, targets, int64_t(1)}));
  if (const Document *categories = find(need(*booster, "model"), "cats"))
    if (Status status = readXgboostCategories(*categories, forest); !status.ok())
      throw Broken{status};
  if (drop) {
    forest.scale.clear();
    for (const Document &weight : *drop)
      forest.scale.push_back(weight.is_number() ? weight.get<float>() : std::nanf(""));
  }
  int64_t labels = objective.task == Objective::Task::Binary    ? 2
                   : objective.task == Objective::Task::Classes ? forest.channels()
                                                                : 0;
  for (int64_t label = 0; label < labels && labels > 1; ++label)
    forest.classes.push_back(label);
  if (const Document *attributes = find(learner, "attributes"); attributes && labels > 1)
    if (const Document *names = find(*attributes, kClassNames); names && names->is_string()) {
      auto list = readJson(names->get_ref<const std::string &>());
      if (!list.ok())
        throw Broken{list.status().within(kClassNames)};
      forest.classNames = list->get<std::vector<std::string>>();
    }
  return forest;
}

} // namespace

Result<Forest> readXgboost(std::string_view bytes) {
  // Both begin with a brace; UBJSON's next is the type of a key's length.
  bool isUbjson = bytes.size() > 1 && std::strchr("LUiIl#$", bytes[1]);
  auto document = isUbjson ? readUbjson(bytes) : readJson(bytes);
  if (!document.ok())
    return document.status();
  try {
    Forest forest = forestOf(*document);
    Status status = verifyForest(forest);
    return status.ok() ? Result<Forest>(std::move(forest)) : Result<Forest>(status);
  } catch (const Broken &error) {
    return error.status;
  } catch (const Document::exception &error) {
    return Status(StatusCode::InvalidModel, std::string("is damaged: ") + error.what());
  }
}

} // namespace tensmith::trees
