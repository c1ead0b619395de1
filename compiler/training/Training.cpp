// The parts of a step in their order; see Training.h.
#include "compiler/training/Training.h"

#include "compiler/autodiff/Differentiate.h"
#include "compiler/graph/ProcessReduction.h"
#include "compiler/training/Dropout.h"
#include "compiler/training/FakeQuantization.h"
#include "compiler/training/LossScale.h"
#include "compiler/training/Losses.h"
#include "compiler/training/RunKeys.h"
#include "compiler/training/Updates.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::training {
namespace {

class Construction {
public:
  Construction(func::FuncOp function, const Options &options)
      : options_(options), step_(function), builder_(function.getContext()),
        shapes_(function.getContext()), graph_(builder_, shapes_, function.getLoc()),
        code_(graph_) {}

  Status run() {
    std::string problem;
    ScopedDiagnosticHandler handler(builder_.getContext(), [&](Diagnostic &diagnostic) {
      if (problem.empty())
        problem = diagnostic.str();
      return success();
    });
    fuseQuantizations(step_.function);
    for (auto stage :
         {&Construction::meetProcesses, &Construction::findLoss, &Construction::findStates,
          &Construction::observe, &Construction::differentiate, &Construction::update})
      if (Status status = (this->*stage)(); !status.ok())
        return status;
    return problem.empty() ? Status() : Status(StatusCode::Internal, problem);
  }

private:
  using Output = StepFunction::Output;

  Result<Output> find(const std::vector<Output> &outputs, const std::string &name) const {
    std::string known;
    for (const Output &output : outputs) {
      if (output.name == name)
        return output;
      known += (known.empty() ? "'" : ", '") + output.name + "'";
    }
    return invalidArgument("the model has no output '" + name + "'; it has " + known);
  }

  /// The results become the loss, what is asked for beside it, and the next values of statistics.
  Status findLoss() {
    std::vector<Output> outputs = step_.outputs();
    if (outputs.empty())
      return invalidArgument("the model has no output to take a loss of");
    builder_.setInsertionPoint(step_.exit());
    bool isBuiltIn = isBuiltInLoss(options_.loss);
    auto of = isBuiltIn && options_.of.empty()
                  ? Result<Output>(outputs[0])
                  : find(outputs, isBuiltIn ? options_.of : options_.loss);
    if (!of.ok())
      return isBuiltIn ? of.status()
                       : invalidArgument("there is no loss '" + options_.loss +
                                         "': it is neither cross_entropy nor mean_squared_error, "
                                         "and " +
                                         of.status().message());
    std::vector<Output> wanted;
    if (isBuiltIn) {
      auto loss = buildLoss(options_.loss, *of, step_, code_);
      if (!loss.ok())
        return loss.status();
      wanted.push_back({"loss", loss->value});
      if (loss->correct)
        wanted.push_back({"correct", loss->correct});
    } else {
      auto type = dyn_cast<RankedTensorType>(of->value.getType());
      if (!type || !type.hasStaticShape() || type.getNumElements() != 1)
        return invalidArgument("output '" + of->name +
                               "' is no single number, and so no loss; name a loss to take of it");
      wanted.push_back({"loss", code_.reshape(of->value, {})});
    }
    for (const std::string &name : options_.outputs) {
      auto output = find(outputs, name);
      if (!output.ok())
        return output.status();
      if (llvm::none_of(wanted, [&](const Output &other) { return other.name == name; }))
        wanted.push_back(*output);
    }
    wanted_ = wanted;
    own_ = wanted.size();
    return {};
  }

  Status findStates() {
    auto statistics = takeStatistics(step_);
    if (!statistics.ok())
      return statistics.status();
    for (const Statistic &statistic : *statistics)
      for (const Output &output : step_.outputs())
        if (output.name == statistic.output)
          wanted_.push_back(output);
    auto parameters = takeParameters(step_, wanted_[0].value, options_.trainable);
    if (!parameters.ok())
      return parameters.status();
    statistics_ = std::move(*statistics);
    parameters_ = std::move(*parameters);
    if (Status status = options_.gradientsAlone ? takeShare() : Status(); !status.ok())
      return status;
    auto count = step_.addState("step", RankedTensorType::get({}, builder_.getI64Type()),
                                StateKind::Step, {});
    if (!count.ok())
      return count.status();
    count_ = *count;
    if (!options_.scalesLoss)
      return {};
    auto scale = LossScale::add(step_);
    if (scale.ok())
      scale_ = *scale;
    return scale.status();
  }

  /// What the gradients of several processes are summed with: each one's part of the whole loss.
  Status takeShare() {
    auto process = step_.addState(kProcess, RankedTensorType::get({}, builder_.getI64Type()),
                                  StateKind::Step, {});
    if (!process.ok())
      return process.status();
    auto share = step_.addState(kShare, RankedTensorType::get({}, builder_.getF32Type()),
                                StateKind::Step, {});
    if (!share.ok())
      return share.status();
    process_ = *process;
    share_ = *share;
    builder_.setInsertionPoint(step_.exit());
    Value loss = wanted_[0].value;
    wanted_[0].value = code_.mul(loss, code_.cast(*share, graph::GraphCode::element(loss)));
    return {};
  }

  /// The front end takes means over processes wherever it takes those over the batch.
  Status meetProcesses() {
    if (options_.gradientsAlone)
      return {};
    SmallVector<graph::AllReduceMeanOp> means(step_.block().getOps<graph::AllReduceMeanOp>());
    for (graph::AllReduceMeanOp op : means) {
      op.replaceAllUsesWith(op.getX());
      op.erase();
    }
    return {};
  }

  /// Statistics of layers' inputs, if the optimiser asks for them, move like those of batch
  /// normalisation.
  Status observe() {
    auto programs = readPrograms(options_, builder_.getContext());
    if (!programs.ok())
      return programs.status();
    programs_.emplace(std::move(*programs));
    builder_.setInsertionPoint(step_.exit());
    Value step = code_.add(count_, 1);
    firstObserved_ = wanted_.size();
    for (const Layer &layer : programs_->observe ? findLayers(parameters_) : std::vector<Layer>())
      if (Status status = observe(layer, step); !status.ok())
        return status;
    step_.setOutputs(wanted_);
    replaceRunKeys(step_, count_, process_, code_);
    return replaceDropout(step_, count_, process_, code_);
  }

  Status observe(const Layer &layer, Value step) {
    Type type = RankedTensorType::get({layer.groups, layer.inputs}, layer.statisticsType());
    SmallVector<BlockArgument> states;
    for (const std::string &kind : programs_->statistics) {
      auto state =
          step_.addState("input_" + kind + "." + layer.weights.name, type, StateKind::Slot, {});
      if (!state.ok())
        return state.status();
      states.push_back(*state);
    }
    auto next = observed(layer, states, step, *programs_, code_, bool(process_));
    if (!next.ok())
      return next.status().within("layer of '" + layer.weights.name + "'");
    auto want = [&](Value value) {
      wanted_.push_back({"observed." + std::to_string(wanted_.size()), value});
    };
    for (auto [state, value] : llvm::zip_equal(states, next->statistics)) {
      want(value);
      statistics_.push_back({wanted_.back().name, wanted_.back().name, state});
    }
    for (Value value : {next->batch.mean, next->batch.variance})
      want(value);
    layers_.push_back(std::move(*next));
    return {};
  }

  Status differentiate() {
    autodiff::Derivative derivative;
    derivative.checkpointing = options_.checkpointing;
    derivative.of = {wanted_[0].name};
    if (scale_) {
      builder_.setInsertionPoint(step_.exit());
      derivative.of = {"scaled loss"};
      std::vector<Output> outputs = wanted_;
      outputs.push_back({derivative.of[0], scale_->scaled(wanted_[0].value, code_)});
      step_.setOutputs(outputs);
    }
    for (const Parameter &parameter : parameters_)
      derivative.withRespectTo.push_back(parameter.name);
    if (Status status = autodiff::differentiate(step_.function, derivative); !status.ok())
      return status;
    std::vector<Output> outputs = step_.outputs();
    for (size_t i = wanted_.size() + (scale_ ? 1 : 0); i < outputs.size(); ++i)
      gradients_.push_back(outputs[i].value);
    named_.assign(outputs.end() - long(gradients_.size()), outputs.end());
    outputs.resize(wanted_.size());
    wanted_ = outputs;
    return {};
  }

  /// Layers are known here alone: who updates them whole does it in the same step, by sums within
  /// it.
  bool updatesElsewhere() const { return options_.gradientsAlone && !programs_->observe; }

  void sumGradients() {
    auto meanOfAll = [&](Value value) { return code_.op("graph.all_reduce_mean", {value}); };
    Value share = meanOfAll(share_), none = code_.scalar(share_, 0);
    share = code_.where(code_.op("graph.greater", {share, none}), share, code_.scalar(share_, 1));
    for (Value &gradient : gradients_)
      gradient =
          code_.div(meanOfAll(gradient), code_.cast(share, graph::GraphCode::element(gradient)));
  }

  /// The gradients in the order in which they are computed, which is that of the way back.
  void giveGradients(std::vector<Output> &own) {
    llvm::DenseMap<Operation *, size_t> places;
    for (auto [i, op] : llvm::enumerate(step_.block()))
      places[&op] = i;
    llvm::sort(named_, [&](const Output &a, const Output &b) {
      return std::pair(places.lookup(a.value.getDefiningOp()), StringRef(a.name)) <
             std::pair(places.lookup(b.value.getDefiningOp()), StringRef(b.name));
    });
    own.insert(own.end(), named_.begin(), named_.end());
  }

  Status update() {
    Operation *last = step_.exit()->getPrevNode();
    builder_.setInsertionPoint(step_.exit());
    // The gradients' results go; the next values of statistics become those of states.
    std::vector<Output> own(wanted_.begin(), wanted_.begin() + long(own_));
    llvm::StringMap<Value> observed;
    for (const Output &output : ArrayRef(wanted_).drop_front(own_))
      observed[output.name] = output.value;
    std::vector<StepFunction::Update> updates;
    for (const Statistic &statistic : statistics_)
      updates.push_back({statistic.state, observed.lookup(statistic.output)});
    if (updatesElsewhere()) {
      giveGradients(own);
      updates.push_back({count_, code_.add(count_, 1)});
    }
    step_.setOutputs(own);
    step_.update(updates);
    if (updatesElsewhere())
      return {};
    if (process_)
      sumGradients();
    findObserved();
    if (scale_)
      scale_->unscale(gradients_, code_);
    Status status =
        addUpdates(step_, {parameters_, gradients_, layers_}, count_, options_, *programs_, code_);
    if (status.ok() && scale_)
      scale_->guard(step_, code_);
    if (status.ok())
      moveUp(last);
    return status;
  }

  /// What was observed, in the graph that is left after differentiation.
  void findObserved() {
    size_t at = firstObserved_;
    for (ObservedLayer &layer : layers_) {
      for (Value &value : layer.statistics)
        value = wanted_[at++].value;
      layer.batch = {wanted_[at].value, wanted_[at + 1].value};
      at += 2;
    }
  }

  /// Each update behind what it needs, so that no gradient waits for the others. By numbers: the
  /// block's own order would be found out again after each move.
  void moveUp(Operation *last) {
    Block &block = step_.block();
    llvm::DenseMap<Operation *, size_t>
        place;                                // in the order before; of what is moved, its anchor's
    llvm::DenseMap<size_t, Operation *> tail; // what was moved behind a place last
    auto first = last ? std::next(last->getIterator()) : block.begin();
    size_t number = 1;
    for (auto it = block.begin(); it != first; ++it, ++number) {
      place[&*it] = number;
      tail[number] = &*it;
    }
    for (Operation &op :
         llvm::make_early_inc_range(llvm::make_range(first, step_.exit()->getIterator()))) {
      size_t behind = 0;
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          behind = std::max(behind, place.lookup(producer));
      Operation *&before = tail[behind];
      if (before)
        op.moveAfter(before);
      else
        op.moveBefore(&block, block.begin());
      before = &op;
      place[&op] = behind;
    }
  }

  const Options &options_;
  StepFunction step_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  graph::GraphCode code_;
  std::vector<Output> wanted_; // what is asked for (`own_`), statistics, what is observed of layers
  size_t own_ = 0, firstObserved_ = 0;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::optional<Programs> programs_;
  std::vector<ObservedLayer> layers_;
  std::vector<Value> gradients_;
  std::vector<Output> named_; // the same with their names
  BlockArgument count_;       // the steps before this one
  Value process_, share_;     // null where there is one process
  std::optional<LossScale> scale_;
};

} // namespace

Status makeTrainingStep(ModuleOp module, const Options &options) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return {StatusCode::InvalidModel, "the model has no main function"};
  return Construction(main, options).run();
}

} // namespace tensmith::training
