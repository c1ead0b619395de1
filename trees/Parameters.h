// How trees are trained: every hyper-parameter, and the table by which Python, the command line and
// configuration files name, check and describe them.
//
// A parameter has a name of ours and XGBoost's, where that has it, and either is taken. What the
// table says (least, most, choices) is checked in one place, `assign`.
#pragma once

#include "base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tensmith::trees {

using Json = nlohmann::ordered_json;

struct Parameters {
  std::string objective = "squared"; // a name of Objective.h's table
  std::string loss;                  // of one's own (CompiledLoss.h); empty: the objective's
  int64_t classes = 0;               // of softmax; 0: as many as the labels have
  std::optional<double> baseScore;   // as a prediction; none: it is estimated
  std::vector<std::string> metrics;  // of validation; empty: the objective's own

  int64_t rounds = 100;
  double learningRate = 0.3;
  int64_t earlyStoppingRounds = 0; // 0: never
  int64_t seed = 0;
  int64_t threads = 0; // 0: as many as there are CPUs

  std::string method = "hist";  // exact, approx, hist
  std::string growth = "depth"; // level by level; "loss": the best leaf first
  int64_t maxDepth = 6;         // 0: no limit (with growth by loss)
  int64_t maxLeaves = 0;        // 0: no limit
  int64_t maxBins = 256;
  std::string proposals = "global"; // of approx; "local": again at each level

  double lambda = 1, alpha = 0, gamma = 0;
  double minChildWeight = 1, maxDeltaStep = 0;
  double subsample = 1;
  double columnsByTree = 1, columnsByLevel = 1, columnsByNode = 1;

  std::vector<int64_t> monotone;                  // by feature: 1 rises, -1 falls, 0 free
  std::vector<std::vector<int64_t>> interactions; // features that may be on a path together
  int64_t oneHotCategories = 4;                   // fewer are split one against the rest
  int64_t splitCategories = 64;                   // of those sorted by gradient: tried on a side

  std::string booster = "trees"; // dart
  double dropRate = 0, skipDrop = 0;
  bool dropOne = false;

  double positiveWeight = 1; // of rows whose label is 1, in logistic
  double huberSlope = 1, quantile = 0.5, tweediePower = 1.5;
  int64_t rankingPairs = 0; // LambdaMART: only pairs with one of the first so many; 0: all

  // How, but not what: the trees are the same.
  bool subtraction = true; // a sibling's histogram is the parent's less its brother's
  bool prefetch = true;    // of gradient statistics
  std::string blocks;      // a folder for blocks of the data on disk; empty: it stays in memory
  bool compression = true; // of those blocks

  std::string checkpoint;       // a file from which training goes on (Checkpoint.h); empty: none
  int64_t checkpointEvery = 10; // rounds
  bool resume = false;          // from that file, where it is there
};

using Field =
    std::variant<bool Parameters::*, int64_t Parameters::*, double Parameters::*,
                 std::string Parameters::*, std::optional<double> Parameters::*,
                 std::vector<int64_t> Parameters::*, std::vector<std::string> Parameters::*,
                 std::vector<std::vector<int64_t>> Parameters::*>;

struct Parameter {
  const char *name, *xgboost; // "learning_rate", "eta"; null where XGBoost has none
  Field field;
  const char *help;
  double least = 0, most = 1e15; // of numbers
  std::vector<std::string> choices = {};
};

std::span<const Parameter> parameterTable();
/// By either name; null where there is none.
const Parameter *findParameter(const std::string &name);

/// Sets it, or says what is wrong: "learning_rate is -1; a number from 0 to 1 is expected".
Status assign(Parameters &parameters, const std::string &name, const Json &value);
Json toJson(const Parameters &parameters);
/// What no single parameter can be blamed for, with the number of features (-1: not known yet).
Status check(const Parameters &parameters, int64_t features = -1);

} // namespace tensmith::trees
