// What a round came to: metrics of validation sets, which round is the best, and checkpoints from
// which training goes on.
#include "trees/Booster.h"
#include "trees/Checkpoint.h"

#include <fmt/format.h>

namespace tensmith::trees {

/// Of a compiled loss, by weight.
Result<double> Booster::meanLoss(const ValidationRows &rows) {
  std::vector<float> losses(size_t(rows.set->matrix->rows));
  Status status = loss_->evaluate(rows.outputs, rows.set->matrix->labels, losses, threads_);
  if (!status.ok())
    return status;
  double sum = 0, weights = 0;
  for (size_t row = 0; row < losses.size(); ++row) {
    double weight = rows.weights.empty() ? 1 : rows.weights[row];
    sum += weight * losses[row], weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

/// Of a checkpoint, if it is asked for. Its rounds are told again to whoever watches.
Status Booster::resume() {
  training_ = trainingHash(input_, parameters_);
  if (!parameters_.resume)
    return {};
  auto found =
      findCheckpoint(checkpointPath(parameters_, input_.exchange), training_, input_.exchange);
  if (!found)
    return found.status();
  if (!*found)
    return {};
  Checkpoint &checkpoint = **found;
  bool fits = checkpoint.outputs.size() == validation_.size() + 1 &&
              checkpoint.outputs[0].size() == outputs_.size();
  for (size_t set = 0; fits && set < validation_.size(); ++set)
    fits = checkpoint.outputs[set + 1].size() == validation_[set].outputs.size();
  if (!fits || int64_t(checkpoint.forest.trees.size()) !=
                   (firstRound_ + int64_t(checkpoint.rounds.size())) * channels_)
    return invalidArgument(parameters_.checkpoint + " does not fit the training data");
  if (int64_t(checkpoint.rounds.size()) > parameters_.rounds)
    return invalidArgument(fmt::format("{} is of {} rounds, and {} are asked for",
                                       parameters_.checkpoint, checkpoint.rounds.size(),
                                       parameters_.rounds));
  forest_ = std::move(checkpoint.forest);
  outputs_ = std::move(checkpoint.outputs[0]);
  for (size_t set = 0; set < validation_.size(); ++set)
    validation_[set].outputs = std::move(checkpoint.outputs[set + 1]);
  for (const Round &round : checkpoint.rounds) {
    takeRound(round);
    isEnded_ = input_.watch && !input_.watch(round);
    if (isEnded_)
      break;
  }
  rounds_ = std::move(checkpoint.rounds);
  Result<bool> goesOn = agreed(!isEnded_ && !isStoppedEarly());
  isEnded_ = goesOn && !*goesOn;
  return goesOn.status();
}

Status Booster::saveState() const {
  Checkpoint checkpoint{training_, forest_, rounds_, {outputs_}};
  for (const ValidationRows &rows : validation_)
    checkpoint.outputs.push_back(rows.outputs);
  return saveCheckpoint(checkpoint, checkpointPath(parameters_, input_.exchange),
                        input_.exchange != nullptr);
}

/// Whether it is the best one.
void Booster::takeRound(const Round &round) {
  if (round.metrics.empty())
    return;
  double value = round.metrics.back().value;
  bool isGreater = metrics_.back().metric && metrics_.back().metric->isBetterGreater;
  if (bestRound_ < 0 || (isGreater ? value > bestValue_ : value < bestValue_)) {
    bestValue_ = value;
    bestRound_ = round.number;
  }
}

bool Booster::isStoppedEarly() const {
  int64_t last = firstRound_ + int64_t(rounds_.size()) - 1;
  return parameters_.earlyStoppingRounds > 0 && bestRound_ >= 0 &&
         last - bestRound_ >= parameters_.earlyStoppingRounds;
}

/// False where training ends.
Result<bool> Booster::validate(int64_t number, double seconds) {
  Round round{number, {}, seconds};
  for (const ValidationRows &rows : validation_)
    for (const NamedMetric &metric : metrics_) {
      Rows all = rowsOf(*rows.set->matrix, rows.weights, rows.outputs);
      Result<double> value =
          metric.metric ? metric.metric->value(all, *objective_, parameters_, metric.argument)
                        : meanLoss(rows);
      if (!value)
        return value.status();
      round.metrics.push_back({rows.set->name, metric.name, *value});
    }
  bool goesOn = !input_.watch || input_.watch(round);
  takeRound(round);
  rounds_.push_back(std::move(round));
  return goesOn && !isStoppedEarly();
}

} // namespace tensmith::trees
