// The rounds of boosting.
//
// Outputs of training rows are kept and each leaf's value is added to its rows' after a tree has
// grown, so that no row is sent through a tree again. Only trees that DART leaves out are.
#include "trees/Booster.h"

#include "trees/BaseScores.h"
#include "trees/Finders.h"
#include "trees/TreeOutputs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <new>

namespace tensmith::trees {

/// Of a compiled loss: its mean.
static constexpr char kOwnMetric[] = "loss";

std::vector<float> weightsByRow(const Matrix &matrix) {
  if (matrix.groups.empty() || int64_t(matrix.weights.size()) == matrix.rows)
    return matrix.weights;
  std::vector<float> weights;
  for (size_t group = 0; group < matrix.groups.size() && !matrix.weights.empty(); ++group)
    weights.insert(weights.end(), matrix.groups[group], matrix.weights[group]);
  return weights;
}

Booster::Booster(const TrainingInput &input, const Parameters &parameters)
    : input_(input), parameters_(parameters), matrix_(*input.matrix),
      objective_(findObjective(parameters.objective)), threads_(parameters.threads),
      dropping_(parameters_) {
  if (objective_ && std::string(objective_->name) == "poisson" && parameters_.maxDeltaStep == 0)
    parameters_.maxDeltaStep = 0.7; // as XGBoost: the first steps would be too far
}

Rows Booster::rowsOf(const Matrix &matrix, const std::vector<float> &weights,
                     const std::vector<float> &outputs) const {
  return {matrix.rows, channels_, matrix.labels, weights, matrix.groups, outputs};
}

/// Objectives that need rows of other processes at once.
Status Booster::checkTogether() const {
  if (!input_.exchange)
    return {};
  bool needsAll = objective_->leafQuantile || objective_->task == Objective::Task::Survival;
  if (needsAll && !hasOwnLoss())
    return unsupported(fmt::format("objective {} needs all rows in one process; train it with one",
                                   objective_->name));
  if (parameters_.method == "exact")
    return unsupported(
        "method exact scans all values of a column in order, which one process has to hold; train "
        "with one process, or with approx or hist and max_bins as many as a feature has values");
  return {};
}

namespace {

Status checkLabels(const Objective &objective, const Matrix &matrix, const char *what, bool isOwn) {
  if (int64_t(matrix.labels.size()) != matrix.rows)
    return invalidArgument(
        fmt::format("{}: there are no labels; training needs one for each row", what));
  // Classes are counted whatever the loss.
  bool isChecked = !isOwn || objective.task == Objective::Task::Classes;
  for (int64_t row = 0; row < matrix.rows && isChecked; ++row)
    if (!objective.takes(matrix.labels[row]))
      return invalidArgument(
          fmt::format("{}: label {} is {}; objective {} takes labels that are {}", what, row,
                      matrix.labels[row], objective.name, objective.labels));
  if (objective.task == Objective::Task::Ranking && matrix.groups.empty() && !isOwn)
    return invalidArgument(fmt::format(
        "{}: objective {} needs groups: how many rows each query has", what, objective.name));
  return {};
}

} // namespace

Status Booster::prepare() {
  if (!objective_)
    return invalidArgument(fmt::format("there is no objective '{}'", parameters_.objective));
  if (Status status = check(matrix_, "training data"); !status.ok())
    return status;
  if (matrix_.rows == 0 && !input_.exchange)
    return invalidArgument("training data: there are no rows");
  if (Status status = check(parameters_, matrix_.columns); !status.ok())
    return status;
  for (size_t feature = 0; feature < parameters_.monotone.size(); ++feature)
    if (parameters_.monotone[feature] != 0 && matrix_.categoriesOf(int64_t(feature)) > 0)
      return invalidArgument(
          fmt::format("monotone asks for an order of feature {}, whose categories have none; give "
                      "it 0, or make it a number",
                      feature));
  bool isOwn = hasOwnLoss();
  if (Status status = checkLabels(*objective_, matrix_, "training data", isOwn); !status.ok())
    return status;
  for (const Validation &set : input_.validation) {
    Status status = check(*set.matrix, set.name.c_str());
    if (status.ok() && set.matrix->columns != matrix_.columns)
      status = invalidArgument(fmt::format("{}: {} columns, and training data has {}", set.name,
                                           set.matrix->columns, matrix_.columns));
    if (status.ok())
      status = checkLabels(*objective_, *set.matrix, set.name.c_str(), isOwn);
    if (!status.ok())
      return status;
  }
  std::vector<std::string> names = parameters_.metrics;
  if (names.empty())
    names.push_back(isCompiled() ? kOwnMetric : objective_->metric);
  for (const std::string &name : names) {
    if (name == kOwnMetric && isCompiled()) {
      metrics_.push_back({name, nullptr, 0});
      continue;
    }
    Result<NamedMetric> metric = findMetric(name);
    if (!metric)
      return metric.status();
    metrics_.push_back(*metric);
  }
  return checkTogether();
}

Status Booster::start() {
  weights_ = weightsByRow(matrix_);
  Result<int64_t> channels = channelsFor(*objective_, parameters_, matrix_);
  if (!channels)
    return channels.status();
  channels_ = *channels;
  if (Exchange *exchange = input_.exchange) {
    std::vector<double> own{double(channels_), double(matrix_.rows), double(matrix_.columns)};
    std::vector<double> all(3 * exchange->size());
    if (Status status = exchange->gather(own, all); !status.ok())
      return status;
    for (int process = 0; process < exchange->size(); ++process) {
      channels_ = std::max(channels_, int64_t(all[3 * process]));
      firstRow_ += process < exchange->rank() ? int64_t(all[3 * process + 1]) : 0;
      if (int64_t(all[3 * process + 2]) != matrix_.columns)
        return invalidArgument(fmt::format("process {} has {} columns, and this one {}", process,
                                           all[3 * process + 2], matrix_.columns));
    }
  }
  if (Status status = openLoss(); !status.ok())
    return status;
  if (input_.continued) {
    forest_ = *input_.continued;
    if (forest_.channels() != channels_ || int64_t(forest_.features.size()) != matrix_.columns ||
        forest_.objective != objective_->name)
      return invalidArgument(fmt::format("the forest to continue has objective {}, {} features and "
                                         "{} channels; the training data needs {}, {} and {}",
                                         forest_.objective, forest_.features.size(),
                                         forest_.channels(), objective_->name, matrix_.columns,
                                         channels_));
    if (Status status = joinFeatures(); !status.ok())
      return status;
    firstRound_ = int64_t(forest_.trees.size()) / channels_;
    forest_.bestRound = -1;
    if (!forest_.classNames.empty() && !input_.classes.empty() &&
        forest_.classNames != input_.classes)
      return invalidArgument("the target has other texts than that of the forest to continue; give "
                             "rows of the same classes");
  } else {
    forest_.objective = objective_->name;
    forest_.features = matrix_.features;
    forest_.features.resize(matrix_.columns);
    std::vector<float> none;
    Rows rows = rowsOf(matrix_, weights_, none);
    if (hasOwnLoss()) {
      forest_.baseScores.assign(channels_, parameters_.baseScore.value_or(0));
    } else {
      Result<std::vector<double>> scores =
          baseScores(*objective_, parameters_, rows, threads_, input_.exchange);
      if (!scores)
        return scores.status();
      forest_.baseScores = *scores;
    }
    if (objective_->task == Objective::Task::Classes || objective_->task == Objective::Task::Binary)
      for (int64_t number = 0; number < std::max<int64_t>(channels_, 2); ++number)
        forest_.classes.push_back(number);
    if (input_.classes.size() <= forest_.classes.size())
      forest_.classNames = input_.classes;
  }
  if (Status status = startOutputs(matrix_, outputs_); !status.ok())
    return status;
  for (const Validation &set : input_.validation) {
    validation_.push_back({&set, weightsByRow(*set.matrix), {}});
    if (Status status = startOutputs(*set.matrix, validation_.back().outputs); !status.ok())
      return status;
  }
  gradients_.resize(matrix_.rows * channels_);
  ofChannel_.resize(matrix_.rows);
  return {};
}

/// Of a forest that is continued: its features must mean what the training data's do. A feature
/// has the categories that either has seen.
Status Booster::joinFeatures() {
  for (int64_t number = 0; number < matrix_.columns; ++number) {
    Feature &feature = forest_.features[size_t(number)];
    int64_t categories = matrix_.categoriesOf(number);
    if (feature.zeroIsMissing)
      return unsupported(fmt::format(
          "zeros of feature {} are missing values in the forest to continue; new trees would take "
          "them for numbers: give NaN for them and train a new forest",
          number));
    if ((feature.categories > 0) != (categories > 0))
      return invalidArgument(
          fmt::format("feature {} is {} in the forest to continue, and {} in the training data",
                      number, feature.categories > 0 ? "of categories" : "a number",
                      categories > 0 ? "of categories" : "a number"));
    feature.categories = std::max(feature.categories, categories);
    if (Status status = joinLevels(number); !status.ok())
      return status;
  }
  return {};
}

/// The numbers of categories must mean the same: one list begins with the other.
Status Booster::joinLevels(int64_t number) {
  if (matrix_.features.empty())
    return {};
  Levels &known = forest_.features[size_t(number)].levels;
  const Levels &given = matrix_.features[size_t(number)].levels;
  size_t both = std::min(known.names.size(), given.names.size());
  if (both > 0 &&
      (known.kind != given.kind ||
       !std::equal(known.names.begin(), known.names.begin() + int64_t(both), given.names.begin())))
    return invalidArgument(fmt::format(
        "feature {} lists other categories in the training data than in the forest to continue; "
        "give it the same list, new ones at its end",
        number));
  if (given.names.size() > known.names.size())
    known = given;
  return {};
}

bool Booster::isCompiled() const { return !parameters_.loss.empty() || !input_.lossModule.empty(); }
bool Booster::hasOwnLoss() const { return isCompiled() || input_.ownLoss; }

Status Booster::openLoss() {
  if (!isCompiled())
    return {};
  if (objective_->task == Objective::Task::Ranking || objective_->task == Objective::Task::Survival)
    return unsupported(fmt::format(
        "a loss of one's own is of each row by itself, which {} is not; choose another objective, "
        "which says what labels and predictions are",
        objective_->name));
  auto loss = input_.lossModule.empty() ? CompiledLoss::compile(parameters_.loss, channels_)
                                        : CompiledLoss::load(input_.lossModule, channels_);
  if (!loss)
    return loss.status();
  loss_ = std::move(*loss);
  return {};
}

Status Booster::startOutputs(const Matrix &matrix, std::vector<float> &outputs) {
  if (!matrix.baseMargins.empty() && int64_t(matrix.baseMargins.size()) != matrix.rows * channels_)
    return invalidArgument(
        fmt::format("{} base margins are given; {} rows with {} channels are expected",
                    matrix.baseMargins.size(), matrix.rows, channels_));
  outputs = matrix.baseMargins;
  if (outputs.empty()) {
    outputs.resize(matrix.rows * channels_);
    for (size_t at = 0; at < outputs.size(); ++at)
      outputs[at] = float(forest_.baseScores[at % channels_]);
  }
  for (size_t tree = 0; tree < forest_.trees.size(); ++tree)
    addTree(forest_.trees[tree], forest_.scale[tree], forest_.features, matrix, outputs, channels_,
            forest_.channel[tree], threads_);
  return {};
}

Result<Forest> Booster::train() {
  auto begin = std::chrono::steady_clock::now();
  Status status = prepare();
  if (status.ok())
    status = start();
  if (status.ok()) {
    Result<std::unique_ptr<FinderWithCuts>> finder = openFinder(input_, parameters_, threads_);
    if (!finder)
      return finder.status();
    finder_ = std::move(*finder);
    grower_ = std::make_unique<TreeGrower>(parameters_, matrix_.rows, matrix_.columns, threads_);
  }
  if (status.ok() && !parameters_.checkpoint.empty())
    status = resume();
  int64_t end = firstRound_ + parameters_.rounds;
  double before = rounds_.empty() ? 0 : rounds_.back().seconds;
  for (int64_t number = firstRound_ + int64_t(rounds_.size());
       status.ok() && number < end && !isEnded_; ++number) {
    status = round(number);
    std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (!status.ok())
      break;
    Result<bool> goesOn = validate(number, before + passed.count());
    if (goesOn)
      goesOn = agreed(*goesOn);
    if (!goesOn)
      return goesOn.status();
    bool isLast = number + 1 == end || !*goesOn;
    if (!parameters_.checkpoint.empty() &&
        (isLast || (number + 1 - firstRound_) % parameters_.checkpointEvery == 0))
      status = saveState();
    if (!*goesOn)
      break;
  }
  if (!status.ok())
    return status;
  if (parameters_.earlyStoppingRounds > 0 && !validation_.empty())
    forest_.bestRound = bestRound_;
  if (dropping_.isOn() && forest_.bestRound >= 0)
    goBackToBest();
  return std::move(forest_);
}

/// Rounds behind the best one have scaled its trees: the forest becomes the one that was best.
void Booster::goBackToBest() {
  std::vector<float> scales = input_.continued ? input_.continued->scale : std::vector<float>();
  forest_.scale =
      dropping_.scalesBefore(forest_.bestRound + 1, std::move(scales), firstRound_, channels_);
  forest_.trees.resize(forest_.scale.size());
  forest_.channel.resize(forest_.scale.size());
}

/// Where the Hessian of no row is positive, as that of a loss made of straight pieces, it is taken
/// for 1, as that of such objectives; elsewhere one that isn't positive is taken for next to
/// nothing, since the second order would lead to where the loss is greatest.
Status Booster::deriveOwn() {
  constexpr float kLeast = 1e-16f;
  Status status =
      loss_ ? loss_->derive(outputs_, matrix_.labels, gradients_, threads_) : deriveByCaller();
  if (!status.ok())
    return status;
  float least = -INFINITY, instead = 0; // as the caller's function gives them
  if (loss_) {
    bool isFlat = std::ranges::none_of(
        gradients_, [](const Gradient &gradient) { return gradient.second > 0; });
    Result<bool> isFlatForAll = agreed(isFlat);
    if (!isFlatForAll)
      return isFlatForAll.status();
    least = kLeast, instead = *isFlatForAll ? 1.f : kLeast;
  }
  threads_.ranges(int64_t(gradients_.size()), 1 << 15, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; ++at) {
      float weight = weights_.empty() ? 1 : weights_[at / channels_];
      auto [first, second] = gradients_[at];
      second = second < least ? instead : second; // NaN stays, and is told
      gradients_[at] = {first * weight, second * weight};
    }
  });
  return {};
}

Status Booster::deriveByCaller() {
  std::vector<float> first(gradients_.size()), second(gradients_.size());
  Status status = input_.ownLoss(outputs_, matrix_.labels, weights_, first, second);
  for (size_t at = 0; at < gradients_.size(); ++at)
    gradients_[at] = {first[at], second[at]};
  return status;
}

Status Booster::derive() {
  if (hasOwnLoss()) {
    if (Status status = deriveOwn(); !status.ok())
      return status;
  } else {
    objective_->gradient(parameters_, rowsOf(matrix_, weights_, outputs_), gradients_, threads_);
  }
  std::atomic<int64_t> wrong{-1};
  threads_.ranges(int64_t(gradients_.size()), 1 << 15, [&](int64_t begin, int64_t end, int) {
    float sum = 0;
    for (int64_t at = begin; at < end; ++at) // 0, or NaN
      sum += (gradients_[at].first - gradients_[at].first) +
             (gradients_[at].second - gradients_[at].second);
    if (sum != 0)
      wrong = begin;
  });
  if (wrong >= 0)
    return invalidArgument(
        fmt::format("the loss has a derivative that is infinite or NaN near row {}; check the "
                    "labels, or use a lower learning_rate or a max_delta_step",
                    wrong.load() / channels_));
  return {};
}

Status Booster::round(int64_t number) {
  dropping_.draw(forest_.trees.size(), number);
  for (int64_t tree : dropping_.dropped())
    addTree(forest_.trees[tree], -forest_.scale[tree], forest_.features, matrix_, outputs_,
            channels_, forest_.channel[tree], threads_);
  if (Status status = derive(); !status.ok())
    return status;
  for (int64_t channel = 0; channel < channels_; ++channel)
    if (Status status = growChannel(number, channel); !status.ok())
      return status;
  for (int64_t tree : dropping_.dropped()) {
    float before = forest_.scale[tree], after = before * dropping_.factorOfDropped();
    forest_.scale[tree] = after;
    addTree(forest_.trees[tree], after, forest_.features, matrix_, outputs_, channels_,
            forest_.channel[tree], threads_);
    for (ValidationRows &rows : validation_)
      addTree(forest_.trees[tree], after - before, forest_.features, *rows.set->matrix,
              rows.outputs, channels_, forest_.channel[tree], threads_);
  }
  return {};
}

Status Booster::growChannel(int64_t number, int64_t channel) {
  uint64_t draw = mixed(mixed(uint64_t(parameters_.seed), uint64_t(number)), uint64_t(channel));
  bool isSampled = parameters_.subsample < 1;
  threads_.ranges(matrix_.rows, 1 << 15, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      ofChannel_[row] = isSampled && !isRowDrawn(draw, firstRow_ + row, parameters_.subsample)
                            ? Gradient()
                            : gradients_[row * channels_ + channel];
  });
  Result<GradientSum> sum = sumOfAll(ofChannel_, threads_, input_.exchange);
  if (!sum)
    return sum.status();
  Result<GrownTree> grown = grower_->grow(*finder_->finder, ofChannel_, *sum, mixed(draw, 7));
  if (!grown)
    return grown.status();
  if (objective_->leafQuantile && !hasOwnLoss())
    setQuantiles(*grown);
  float scale = dropping_.scaleOfNew();
  addGrown(*grown, channel, scale);
  for (ValidationRows &rows : validation_)
    addTree(grown->tree, scale, forest_.features, *rows.set->matrix, rows.outputs, channels_,
            channel, threads_);
  forest_.trees.push_back(std::move(grown->tree));
  forest_.channel.push_back(int32_t(channel));
  forest_.scale.push_back(scale);
  return {};
}

/// Each leaf takes the quantile of what is left over in its rows: its Newton step knows only signs.
void Booster::setQuantiles(GrownTree &grown) const {
  double share = objective_->leafQuantile(parameters_);
  for (const GrownTree::Leaf &leaf : grown.leaves) {
    std::vector<std::pair<float, float>> values;
    for (uint32_t row : leaf.rows)
      if (ofChannel_[row].second > 0)
        values.emplace_back(matrix_.labels[row] - outputs_[row],
                            weights_.empty() ? 1 : weights_[row]);
    grown.tree.value[leaf.node] =
        weightedQuantile(values, share, !weights_.empty()) * float(parameters_.learningRate);
  }
}

void Booster::addGrown(const GrownTree &grown, int64_t channel, float scale) {
  threads_.parts(int64_t(grown.leaves.size()), [&](int64_t number, int) {
    const GrownTree::Leaf &leaf = grown.leaves[number];
    float value = scale * grown.tree.value[leaf.node];
    for (uint32_t row : leaf.rows)
      outputs_[int64_t(row) * channels_ + channel] += value;
  });
}

/// Training ends for all processes where it does for one: the next round needs all of them.
Result<bool> Booster::agreed(bool goesOn) const {
  if (!input_.exchange)
    return goesOn;
  double stops[] = {goesOn ? 0. : 1.};
  if (Status status = input_.exchange->sum(stops); !status.ok())
    return status;
  return stops[0] == 0;
}

Result<Forest> train(const TrainingInput &input, const Parameters &parameters) {
  try {
    return Booster(input, parameters).train();
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::ResourceExhausted,
                  "there is not enough memory for this training; give fewer rows or max_bins, or "
                  "blocks, which keeps bins on disk");
  }
}

} // namespace tensmith::trees
