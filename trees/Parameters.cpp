// The table of parameters, and what may be assigned to each.
#include "trees/Parameters.h"

#include "trees/CompiledLoss.h"
#include "trees/Objective.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tensmith::trees {

namespace {

using P = Parameters;
constexpr double kNoLimit = 1e15, kMany = 1e9;

const std::vector<Parameter> &table() {
  static const std::vector<Parameter> rows = {
      {"objective", nullptr, &P::objective,
       "what is minimised; also a loss of one's own, as for the parameter loss"},
      {"loss", nullptr, &P::loss,
       "in place of the objective's, whose labels and predictions stay: file.tsm:function, of "
       "outputs and labels, which gives each row's loss"},
      {"classes", "num_class", &P::classes, "how many classes there are; 0: as the labels say", 0,
       1e6},
      {"base_score", nullptr, &P::baseScore,
       "the prediction that boosting starts from; estimated where it is not given", -kNoLimit,
       kNoLimit},
      {"metrics", "eval_metric", &P::metrics,
       "what is computed on validation sets; the objective's own where it is not given"},
      {"rounds", "num_boost_round", &P::rounds, "rounds of boosting", 0, kMany},
      {"learning_rate", "eta", &P::learningRate, "by how much a tree's leaves are shrunk", 0, 1e6},
      {"early_stopping_rounds", nullptr, &P::earlyStoppingRounds,
       "end when the last metric of the last validation set has not improved for so many rounds; "
       "0: never",
       0, kMany},
      {"seed", "random_state", &P::seed, "of sampling and dropping", 0, kNoLimit},
      {"threads", "nthread", &P::threads, "0: as many as there are CPUs", 0, 256},
      {"method",
       "tree_method",
       &P::method,
       "how splits are found",
       0,
       0,
       {"hist", "exact", "approx"}},
      {"growth",
       "grow_policy",
       &P::growth,
       "level by level, or the leaf first that gains most",
       0,
       0,
       {"depth", "loss"}},
      {"max_depth", nullptr, &P::maxDepth, "of a tree; 0: no limit", 0, 64},
      {"max_leaves", nullptr, &P::maxLeaves, "of a tree; 0: no limit", 0, kMany},
      {"max_bins", "max_bin", &P::maxBins, "of a feature's histogram", 2, 65535},
      {"proposals",
       nullptr,
       &P::proposals,
       "of approx: candidates once a tree, or again at each level",
       0,
       0,
       {"global", "local"}},
      {"lambda", "reg_lambda", &P::lambda, "L2 regularisation of leaves", 0, kNoLimit},
      {"alpha", "reg_alpha", &P::alpha, "L1 regularisation of leaves", 0, kNoLimit},
      {"gamma", "min_split_loss", &P::gamma, "the least loss that a split must save", 0, kNoLimit},
      {"min_child_weight", nullptr, &P::minChildWeight, "the least sum of Hessians of a child", 0,
       kNoLimit},
      {"max_delta_step", nullptr, &P::maxDeltaStep,
       "the greatest magnitude of a leaf before shrinkage; 0: any", 0, kNoLimit},
      {"subsample", nullptr, &P::subsample, "share of the rows that a tree is grown from", 1e-9, 1},
      {"columns_by_tree", "colsample_bytree", &P::columnsByTree,
       "share of the columns that a tree may use", 1e-9, 1},
      {"columns_by_level", "colsample_bylevel", &P::columnsByLevel,
       "of those, share that a level may use", 1e-9, 1},
      {"columns_by_node", "colsample_bynode", &P::columnsByNode,
       "of those, share that a node may use", 1e-9, 1},
      {"monotone", "monotone_constraints", &P::monotone,
       "by feature: 1 the prediction rises with it, -1 falls, 0 either", -1, 1},
      {"interactions", "interaction_constraints", &P::interactions,
       "lists of features: those of a path must share a list", 0, kMany},
      {"one_hot_categories", "max_cat_to_onehot", &P::oneHotCategories,
       "features with fewer categories are split one against the rest", 0, kMany},
      {"split_categories", "max_cat_threshold", &P::splitCategories,
       "how many categories a split may take from the rest", 1, kMany},
      {"booster",
       nullptr,
       &P::booster,
       "dart: trees are dropped while others are made",
       0,
       0,
       {"trees", "dart"}},
      {"drop_rate", "rate_drop", &P::dropRate, "of dart: share of the trees dropped in a round", 0,
       1},
      {"skip_drop", nullptr, &P::skipDrop, "of dart: share of the rounds without dropping", 0, 1},
      {"drop_one", "one_drop", &P::dropOne, "of dart: at least one tree is dropped"},
      {"positive_weight", "scale_pos_weight", &P::positiveWeight,
       "of logistic: weight of rows with label 1", 0, kNoLimit},
      {"huber_slope", nullptr, &P::huberSlope,
       "of huber: the residual from where on loss is linear", 1e-12, kNoLimit},
      {"quantile", "quantile_alpha", &P::quantile, "of quantile: which", 0, 1},
      {"tweedie_power", "tweedie_variance_power", &P::tweediePower,
       "of tweedie: between Poisson (1) and gamma (2)", 1, 2},
      {"ranking_pairs", "lambdarank_num_pair_per_sample", &P::rankingPairs,
       "of lambdamart: pairs with one of the first so many; 0: all", 0, kMany},
      {"subtraction", nullptr, &P::subtraction,
       "a sibling's histogram is computed from its parent's"},
      {"prefetch", nullptr, &P::prefetch, "gradient statistics are asked for ahead"},
      {"blocks", nullptr, &P::blocks,
       "a folder for blocks of data that is larger than memory; method hist"},
      {"compression", nullptr, &P::compression, "blocks on disk are compressed"},
      {"checkpoint", nullptr, &P::checkpoint,
       "a file that the state of training is written to, for resume; of several processes one "
       "each"},
      {"checkpoint_every", nullptr, &P::checkpointEvery, "by how many rounds checkpoints are apart",
       1, kMany},
      {"resume", nullptr, &P::resume,
       "training goes on from the checkpoint, if there is one, as if it had not been interrupted"},
  };
  return rows;
}

Status refuse(const Parameter &parameter, const Json &value, const std::string &expected) {
  return invalidArgument(
      fmt::format("{} is {}; {} is expected", parameter.name, value.dump(), expected));
}

std::string range(const Parameter &parameter, const char *kind) {
  return parameter.most >= kMany
             ? fmt::format("{} from {} on", kind, parameter.least)
             : fmt::format("{} from {} to {}", kind, parameter.least, parameter.most);
}

bool isInRange(const Parameter &parameter, double number) {
  return number >= parameter.least && number <= parameter.most;
}

bool isWhole(const Json &value) {
  return value.is_number_integer() || (value.is_number() && std::fabs(value.get<double>()) < 1e15 &&
                                       value.get<double>() == std::floor(value.get<double>()));
}

Status set(bool &to, const Parameter &parameter, const Json &value) {
  if (!value.is_boolean() && value != Json(0) && value != Json(1))
    return refuse(parameter, value, "true or false");
  to = value.is_boolean() ? value.get<bool>() : value.get<int>() != 0;
  return {};
}

Status set(int64_t &to, const Parameter &parameter, const Json &value) {
  if (!isWhole(value) || !isInRange(parameter, value.get<double>()))
    return refuse(parameter, value, range(parameter, "a whole number"));
  to = int64_t(value.get<double>());
  return {};
}

Status set(double &to, const Parameter &parameter, const Json &value) {
  if (!value.is_number() || !isInRange(parameter, value.get<double>()))
    return refuse(parameter, value, range(parameter, "a number"));
  to = value.get<double>();
  return {};
}

Status set(std::optional<double> &to, const Parameter &parameter, const Json &value) {
  to.reset();
  if (value.is_null())
    return {};
  return set(to.emplace(), parameter, value);
}

Status set(std::string &to, const Parameter &parameter, const Json &value) {
  static const std::vector<std::pair<std::string, std::string>> kXgboosts = {
      {"depthwise", "depth"}, {"lossguide", "loss"}, {"gbtree", "trees"}, {"auto", "hist"}};
  if (!value.is_string())
    return refuse(parameter, value, "a word");
  std::string word = value.get<std::string>();
  for (const auto &[theirs, ours] : kXgboosts)
    word = word == theirs ? ours : word;
  if (parameter.field == Field(&P::loss) && !word.empty() && !isLoss(word))
    return refuse(
        parameter, value,
        "a program's file and function, losses.tsm:focal, or a program with fn loss(...)");
  if (parameter.field == Field(&P::objective)) {
    const Objective *objective = findObjective(word);
    if (!objective) {
      std::vector<std::string> names;
      for (const Objective &known : objectiveTable())
        names.push_back(known.name);
      return refuse(
          parameter, value,
          fmt::format("one of {}, or a loss, file.tsm:function,", fmt::join(names, ", ")));
    }
    word = objective->name;
  }
  if (!parameter.choices.empty() && std::find(parameter.choices.begin(), parameter.choices.end(),
                                              word) == parameter.choices.end())
    return refuse(parameter, value, fmt::format("one of {}", fmt::join(parameter.choices, ", ")));
  to = word;
  return {};
}

template <typename Element>
Status set(std::vector<Element> &to, const Parameter &parameter, const Json &value) {
  std::vector<Element> elements;
  if (std::is_same_v<Element, std::string> && value.is_string())
    return set(to, parameter, Json::array({value}));
  if (!value.is_array())
    return refuse(parameter, value, "a list");
  for (const Json &one : value)
    if (Status status = set(elements.emplace_back(), parameter, one); !status.ok())
      return status;
  to = std::move(elements);
  return {};
}

} // namespace

std::span<const Parameter> parameterTable() { return table(); }

const Parameter *findParameter(const std::string &name) {
  for (const Parameter &parameter : table())
    if (name == parameter.name || (parameter.xgboost && name == parameter.xgboost))
      return &parameter;
  return nullptr;
}

Status assign(Parameters &parameters, const std::string &name, const Json &value) {
  if (name == "objective" && value.is_string() && isLoss(value.get<std::string>()))
    return assign(parameters, "loss", value);
  const Parameter *parameter = findParameter(name);
  if (!parameter)
    return invalidArgument(
        fmt::format("there is no parameter '{}' of trees; docs/trees.md lists them", name));
  return std::visit([&](auto field) { return set(parameters.*field, *parameter, value); },
                    parameter->field);
}

Json toJson(const Parameters &parameters) {
  Json json = Json::object();
  for (const Parameter &parameter : table())
    std::visit(
        [&](auto field) {
          if constexpr (std::is_same_v<decltype(field), std::optional<double> P::*>)
            json[parameter.name] = parameters.*field ? Json(*(parameters.*field)) : Json();
          else
            json[parameter.name] = parameters.*field;
        },
        parameter.field);
  return json;
}

Status check(const Parameters &parameters, int64_t features) {
  if (parameters.maxDepth == 0 && parameters.maxLeaves == 0)
    return invalidArgument("max_depth and max_leaves are both 0, no limit; limit one of them");
  if (parameters.maxDepth == 0 && parameters.method == "exact")
    return invalidArgument("method exact needs a max_depth; set one, or use hist");
  if (parameters.growth == "loss" && parameters.method != "hist")
    return invalidArgument(
        fmt::format("growth by loss is done by method hist, not {}; use hist, or growth depth",
                    parameters.method));
  if (!parameters.blocks.empty() && parameters.method != "hist")
    return invalidArgument("blocks on disk are for method hist; use that, or leave out blocks");
  if (parameters.resume && parameters.checkpoint.empty())
    return invalidArgument("resume needs a checkpoint: the file that training has written");
  if (features < 0)
    return {};
  if (int64_t(parameters.monotone.size()) > features)
    return invalidArgument(fmt::format("monotone is given for {} features, and there are {}",
                                       parameters.monotone.size(), features));
  for (const std::vector<int64_t> &set : parameters.interactions)
    for (int64_t feature : set)
      if (feature >= features)
        return invalidArgument(fmt::format(
            "interactions name feature {}, and there are {}, counted from 0", feature, features));
  return {};
}

} // namespace tensmith::trees
