// Clipping, decay, the rate, the optimiser, and averages, in this order; see Updates.h.
#include "compiler/training/Updates.h"

#include "compiler/training/TableRows.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

constexpr llvm::StringLiteral kGiven[] = {"parameter", "gradient", "learning_rate", "step"};
constexpr llvm::StringLiteral kObserved[] = {"batch_mean", "batch_variance", "step"};
constexpr llvm::StringLiteral kOfLayer[] = {"weights",       "bias",          "weights_gradient",
                                            "bias_gradient", "batch_mean",    "batch_variance",
                                            "weight_square", "learning_rate", "step",
                                            "inputs",        "fan_in"};
constexpr char kDecay[] = "weight_decay";

/// The names of a function's parameters that are not given: what it keeps from step to step.
std::vector<std::string> keptBy(const UpdateProgram &function,
                                ArrayRef<llvm::StringLiteral> given) {
  std::vector<std::string> kept;
  for (const std::string &name : function.parameters())
    if (!llvm::is_contained(given, name))
      kept.push_back(name);
  return kept;
}

Status checkSettings(const Options &options, const Programs &programs) {
  const UpdateProgram &optimiser = programs.optimiser, &schedule = programs.schedule;
  for (const auto &[name, value] : options.settings) {
    bool known = llvm::is_contained(optimiser.settings(), name) ||
                 llvm::is_contained(schedule.settings(), name);
    if (known)
      continue;
    std::string all;
    for (const auto *program : {&optimiser, &schedule})
      for (const std::string &setting : program->settings())
        all += (all.empty() ? "" : ", ") + setting;
    return invalidArgument("neither " + optimiser.name() + " nor " + schedule.name() +
                           " has a setting '" + name + "'; there " +
                           (all.empty() ? "is none" : "are " + all));
  }
  return {};
}

class Updates {
public:
  Updates(StepFunction &function, const Options &options, Programs &programs, GraphCode &code)
      : function_(function), options_(options), programs_(programs), optimiser_(programs.optimiser),
        code_(code), slots_(keptBy(optimiser_, kGiven)) {}

  Status run(const Trained &trained, BlockArgument step) {
    Value next = code_.add(step, 1);
    count_ = code_.cast(next, code_.builder.getF32Type());
    auto rate = programs_.schedule.apply({{"step", count_}}, code_.builder);
    if (!rate.ok())
      return rate.status();
    if (rate->size() != 1 || (*rate)[0].getType() != count_.getType())
      return Status(StatusCode::InvalidModel,
                    programs_.schedule.name() + ": rate must give one number, f32[]");
    rate_ = (*rate)[0];
    SmallVector<Value> clipped;
    for (Value gradient : trained.gradients) // 16 bits are for memory: all is computed in f32
      clipped.push_back(code_.widen(gradient));
    findRows(trained.parameters, clipped);
    clip(trained.parameters, clipped);
    for (auto [parameter, gradient] : llvm::zip_equal(trained.parameters, clipped))
      gradients_[parameter.state] = applyDecay(parameter.state, gradient);
    for (const ObservedLayer &layer : trained.layers)
      if (Status status = LayerUpdate{*this, layer}.run(); !status.ok())
        return status.within("update of '" + layer.layer.weights.name + "'");
    for (const Parameter &parameter : trained.parameters)
      if (gradients_.contains(parameter.state))
        if (Status status = update(parameter, gradients_.lookup(parameter.state)); !status.ok())
          return status;
    updates_.push_back({step, next});
    function_.update(updates_);
    return {};
  }

private:
  /// Of tables that only rows were read of. Averages move all rows. An update without slots takes
  /// the rows as they are added.
  void findRows(ArrayRef<Parameter> parameters, ArrayRef<Value> gradients) {
    if (options_.emaDecay || (slots_.empty() && !options_.clipNorm))
      return;
    for (auto [parameter, gradient] : llvm::zip_equal(parameters, gradients))
      if (auto rows = tableRows(gradient, code_))
        rows_.insert({parameter.state, *rows});
  }

  /// Gradients that are longer together than the limit are scaled down to it.
  void clip(ArrayRef<Parameter> parameters, SmallVectorImpl<Value> &gradients) {
    if (!options_.clipNorm)
      return;
    Value sum;
    for (auto [parameter, gradient] : llvm::zip_equal(parameters, gradients)) {
      auto rows = rows_.find(parameter.state);
      Value all = rows == rows_.end() ? gradient : rows->second.distinct;
      auto axes = llvm::to_vector(llvm::seq<int64_t>(0, GraphCode::rank(all)));
      Value square = code_.reduce("graph.reduce_sum", code_.mul(all, all), axes, false);
      square = code_.cast(square, code_.builder.getF32Type());
      sum = sum ? code_.add(sum, square) : square;
    }
    constexpr double kLeast = 1e-6;
    Value norm = code_.add(code_.unary("graph.sqrt", sum), kLeast);
    Value factor = code_.div(code_.scalar(norm, options_.clipNorm), norm);
    factor = code_.op("graph.min", {factor, code_.scalar(factor, 1)});
    auto scaled = [&](Value gradient) {
      return code_.mul(gradient, code_.cast(factor, GraphCode::element(gradient)));
    };
    for (Value &gradient : gradients)
      gradient = scaled(gradient);
    for (auto &[state, rows] : rows_)
      rows.gradient = scaled(rows.gradient);
  }

  /// Decay is the optimiser's where it has a setting of that name, and part of the gradient
  /// elsewhere.
  bool addsDecay() const {
    return options_.weightDecay.value_or(0) && !llvm::is_contained(optimiser_.settings(), kDecay);
  }
  Value applyDecay(Value parameter, Value gradient) const {
    if (!addsDecay())
      return gradient;
    return code_.add(gradient, code_.mul(code_.widen(parameter), *options_.weightDecay));
  }

  /// A parameter of 16 bits is rounded when it is updated; its slots are f32.
  Status update(const Parameter &parameter, Value gradient) {
    Value old = parameter.state, wide = code_.widen(old);
    Type element = GraphCode::element(wide);
    NamedValues arguments = {{"parameter", wide},
                             {"gradient", gradient},
                             {"learning_rate", code_.cast(rate_, element)},
                             {"step", code_.cast(count_, element)}};
    SmallVector<BlockArgument> states{parameter.state};
    for (const std::string &slot : slots_) {
      auto state =
          function_.addState(slot + "." + parameter.name, wide.getType(), StateKind::Slot, {});
      if (!state.ok())
        return state.status();
      states.push_back(*state);
      arguments.push_back({slot, states.back()});
    }
    auto results = optimiser_.apply(arguments, code_.builder);
    if (!results.ok())
      return results.status().within("update of '" + parameter.name + "'");
    bool fits = results->size() == states.size() &&
                llvm::all_of(*results, [&](Value v) { return v.getType() == wide.getType(); });
    if (!fits)
      return Status(StatusCode::InvalidModel,
                    optimiser_.name() + ": update must give the new parameter and its " +
                        std::to_string(slots_.size()) +
                        " slots after it, all of the parameter's type and shape");
    auto rows = updateRows(parameter, states, arguments, *results);
    if (!rows.ok() || *rows)
      return rows.ok() ? Status() : rows.status().within("update of '" + parameter.name + "'");
    (*results)[0] = code_.cast((*results)[0], GraphCode::element(old));
    for (auto [state, value] : llvm::zip_equal(states, *results))
      updates_.push_back({state, value});
    return options_.emaDecay ? average(parameter, (*results)[0]) : Status();
  }

  /// The same of the rows of a table that were read, where the optimiser leaves the others alone:
  /// `results` are what it makes of the whole. Whether it does.
  Result<bool> updateRows(const Parameter &parameter, ArrayRef<BlockArgument> states,
                          NamedValues arguments, ArrayRef<Value> results) {
    auto found = rows_.find(parameter.state);
    if (found == rows_.end())
      return false;
    TableRows rows = found->second;
    SmallVector<Value> old(states.begin(), states.end());
    UpdateValues update{results, old, gradients_.lookup(parameter.state)};
    auto table = cast<RankedTensorType>(update.gradient.getType());
    bool isLazy = optimiser_.setting(kLazyRows) != 0;
    if (!isLazy && (addsDecay() || !leavesZeros(update)))
      return false;
    bool goesByRows = optimiser_.goesByRows(arguments, table);
    if (isLazy && !goesByRows)
      return Status(StatusCode::InvalidModel,
                    optimiser_.name() + ": rows can't be updated one by one (" + kLazyRows +
                        "), since update makes its results by more than element-wise operators and "
                        "numbers, of other rows, their number or places; leave " +
                        kLazyRows + " at 0");
    if (!goesByRows)
      return false;
    for (auto &[name, value] : arguments)
      if (llvm::is_contained(old, value))
        value = rows.of(value, code_);
    for (auto &[name, value] : arguments)
      if (name == "gradient")
        value = applyDecay(rows.of(parameter.state, code_), rows.gradient);
    auto next = optimiser_.apply(arguments, code_.builder);
    if (!next.ok())
      return next.status();
    for (auto [state, value] : llvm::zip_equal(states, *next))
      updates_.push_back({state, rows.into(state, value, code_)});
    return true;
  }

  /// Weights and bias together, in the form that layers have. A bias that a layer has not is zeros,
  /// as is its gradient.
  struct LayerUpdate {
    Updates &all;
    const ObservedLayer &observed;
    const Layer &layer = observed.layer;
    const GraphCode &code = all.code_;
    Value weights = layer.weights.state;
    Value matrix = layer.matrix(code, code.widen(weights));
    Value column = layer.bias ? layer.column(code, code.widen(layer.bias->state)) : zeros();
    SmallVector<BlockArgument> slots = {};

    Status run() {
      if (Status status = addSlots(); !status.ok())
        return status;
      NamedValues given = arguments();
      for (const auto &[name, value] : given)
        if (!value)
          return unsupported("its " + name + " can't be had as those of a layer; " +
                             "train with an optimiser that has no update_layer");
      auto results = all.programs_.updateLayer->apply(given, all.code_.builder);
      return results.ok() ? store(*results) : results.status();
    }

    Value zeros() const {
      return matrix ? code.broadcast(code.scalar(matrix, 0),
                                     {code.size(layer.outputs()), code.size(1)})
                    : matrix;
    }

    Status addSlots() {
      auto type = RankedTensorType::get({layer.outputs(), 1}, GraphCode::element(matrix));
      for (const std::string &name : all.programs_.layerSlots) {
        auto state =
            all.function_.addState(name + "." + layer.weights.name, type, StateKind::Slot, {});
        if (!state.ok())
          return state.status();
        slots.push_back(*state);
      }
      return {};
    }

    NamedValues arguments() const {
      Type element = GraphCode::element(matrix);
      Value change = layer.matrix(code, all.gradients_.lookup(weights));
      NamedValues given = {
          {"weights", matrix},
          {"bias", column},
          {"weights_gradient", change},
          {"bias_gradient",
           layer.bias ? layer.column(code, all.gradients_.lookup(layer.bias->state)) : zeros()},
          {"batch_mean", layer.spread(code, observed.batch.mean)},
          {"batch_variance", layer.spread(code, observed.batch.variance)},
          {"weight_square",
           layer.spread(code, layer.meanOfOutputs(code, code.mul(matrix, matrix)))},
          {"learning_rate", code.cast(all.rate_, element)},
          {"step", code.cast(all.count_, element)},
          {"inputs", code.scalar(matrix, double(layer.inputs))},
          {"fan_in", code.scalar(matrix, double(layer.fanIn()))}};
      for (auto [name, value] : llvm::zip_equal(all.programs_.statistics, observed.statistics))
        given.push_back({name, layer.spread(code, value)});
      for (auto [name, slot] : llvm::zip_equal(all.programs_.layerSlots, slots))
        given.push_back({name, slot});
      return given;
    }

    Status store(ArrayRef<Value> results) const {
      bool fits = results.size() == 2 + slots.size() && results[0].getType() == matrix.getType() &&
                  results[1].getType() == column.getType();
      for (auto [slot, value] : llvm::zip(slots, results.drop_front(fits ? 2 : results.size())))
        fits = fits && value.getType() == slot.getType();
      if (!fits)
        return Status(StatusCode::InvalidModel,
                      all.programs_.updateLayer->name() +
                          ": update_layer must give the new weights and the new bias, of the types "
                          "and shapes of those that it is given, and its " +
                          std::to_string(slots.size()) + " slots after them, [outputs, 1]");
      for (auto [slot, value] : llvm::zip_equal(slots, results.drop_front(2)))
        all.updates_.push_back({slot, value});
      Status status = all.replace(layer.weights, layer.weightsOf(code, results[0]));
      return status.ok() && layer.bias ? all.replace(*layer.bias, layer.biasOf(code, results[1]))
                                       : status;
    }
  };

  /// The parameter's next value, rounded to its type; nothing else updates it.
  Status replace(const Parameter &parameter, Value next) {
    next = code_.cast(next, GraphCode::element(parameter.state));
    updates_.push_back({parameter.state, next});
    gradients_.erase(parameter.state);
    return options_.emaDecay ? average(parameter, next) : Status();
  }

  Status average(const Parameter &parameter, Value next) {
    unsigned number = parameter.state.getArgNumber();
    auto state = function_.addState("ema." + parameter.name, next.getType(), StateKind::Slot,
                                    function_.initial(number));
    if (!state.ok())
      return state.status();
    Value moved = code_.add(code_.mul(code_.widen(*state), options_.emaDecay),
                            code_.mul(code_.widen(next), 1 - options_.emaDecay));
    updates_.push_back({*state, code_.cast(moved, GraphCode::element(next))});
    return {};
  }

  StepFunction &function_;
  const Options &options_;
  Programs &programs_;
  UpdateProgram &optimiser_;
  GraphCode &code_;
  std::vector<std::string> slots_;
  Value count_, rate_;                     // of this step, from 1; f32 scalars
  llvm::DenseMap<Value, Value> gradients_; // of parameters that are not updated yet
  llvm::DenseMap<Value, TableRows> rows_;  // of those of which few rows may have one
  std::vector<StepFunction::Update> updates_;
};

} // namespace

Result<Programs> readPrograms(const Options &options, MLIRContext *context) {
  std::vector<std::pair<std::string, double>> settings = options.settings;
  if (options.weightDecay)
    settings.push_back({kDecay, *options.weightDecay});
  auto read = [&](const char *kind, const std::string &given, const char *function) {
    return UpdateProgram::read(kind, given, function, settings, context);
  };
  auto optimiser = read("optimiser", options.optimiser, "update");
  if (!optimiser.ok())
    return optimiser.status();
  auto schedule = read("schedule", options.schedule, "rate");
  if (!schedule.ok())
    return schedule.status();
  auto observe = optimiser->other("observe"), updateLayer = optimiser->other("update_layer");
  if (!observe != !updateLayer)
    return Status(StatusCode::InvalidModel,
                  optimiser->name() +
                      ": has one of the functions observe and update_layer, but not the other");
  Programs programs{std::move(*optimiser),
                    std::move(*schedule),
                    std::move(observe),
                    std::move(updateLayer),
                    {},
                    {}};
  if (programs.observe) {
    programs.statistics = keptBy(*programs.observe, kObserved);
    for (const std::string &name : keptBy(*programs.updateLayer, kOfLayer))
      if (!llvm::is_contained(programs.statistics, name))
        programs.layerSlots.push_back(name);
  }
  if (Status status = checkSettings(options, programs); !status.ok())
    return status;
  return programs;
}

/// Null where they are known to be some.
static Value elementsOf(Value value, const GraphCode &code) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.hasStaticShape() && type.getNumElements() > 0)
    return {};
  Value count = code.sizeOf(value, 0);
  for (int64_t dim = 1; dim < type.getRank(); ++dim)
    count = code.mul(count, code.sizeOf(value, dim));
  return count;
}

Result<ObservedLayer> observed(const Layer &layer, ArrayRef<BlockArgument> before, Value step,
                               Programs &programs, GraphCode &code, bool ofAll) {
  Moments batch = momentsOf(layer, code.graph, ofAll);
  if (!batch.mean || !batch.variance)
    return unsupported("the statistics of what goes into '" + layer.weights.name +
                       "' can't be computed");
  NamedValues arguments = {{"batch_mean", batch.mean},
                           {"batch_variance", batch.variance},
                           {"step", code.cast(step, GraphCode::element(batch.mean))}};
  for (auto [name, state] : llvm::zip_equal(programs.statistics, before))
    arguments.push_back({name, state});
  auto results = programs.observe->apply(arguments, code.builder);
  if (!results.ok())
    return results.status();
  bool fits = results->size() == before.size() && llvm::all_of(*results, [&](Value value) {
                return value.getType() == batch.mean.getType();
              });
  if (!fits)
    return Status(StatusCode::InvalidModel,
                  programs.observe->name() + ": observe must give the next value of each of its " +
                      std::to_string(before.size()) +
                      " statistics, of the types and shapes of those that it is given");
  // A batch of nothing has no mean: statistics stay.
  Value count = elementsOf(layer.values, code);
  Value isAny = count ? code.op("graph.greater", {count, code.scalar(count, 0)}) : Value();
  if (isAny)
    for (auto [next, state] : llvm::zip_equal(*results, before))
      next = code.where(isAny, next, state);
  return ObservedLayer{layer, *results, batch};
}

Status addUpdates(StepFunction &function, const Trained &trained, BlockArgument step,
                  const Options &options, Programs &programs, GraphCode &code) {
  return Updates(function, options, programs, code).run(trained, step);
}

} // namespace tensmith::training
