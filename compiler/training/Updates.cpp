// Clipping, decay, the rate, the optimiser, and averages, in this order; see Updates.h.
#include "compiler/training/Updates.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

constexpr llvm::StringLiteral kGiven[] = {"parameter", "gradient", "learning_rate", "step"};
constexpr char kDecay[] = "weight_decay";

class Updates {
public:
  Updates(StepFunction &function, const Options &options, GraphCode &code)
      : function_(function), options_(options), code_(code) {}

  Status run(ArrayRef<Parameter> parameters, ArrayRef<Value> gradients, BlockArgument step) {
    if (Status status = readPrograms(); !status.ok())
      return status;
    Value next = code_.add(step, 1);
    count_ = code_.cast(next, code_.builder.getF32Type());
    auto rate = schedule_->apply({{"step", count_}}, code_.builder);
    if (!rate.ok())
      return rate.status();
    if (rate->size() != 1 || (*rate)[0].getType() != count_.getType())
      return Status(StatusCode::InvalidModel,
                    schedule_->name() + ": rate must give one number, f32[]");
    rate_ = (*rate)[0];
    SmallVector<Value> clipped(gradients);
    clip(clipped);
    for (auto [parameter, gradient] : llvm::zip_equal(parameters, clipped))
      if (Status status = update(parameter, gradient); !status.ok())
        return status;
    updates_.push_back({step, next});
    function_.update(updates_);
    return {};
  }

private:
  Status readPrograms() {
    std::vector<std::pair<std::string, double>> settings = options_.settings;
    settings.push_back({kDecay, options_.weightDecay});
    auto read = [&](const char *kind, const std::string &given, const char *function,
                    std::optional<UpdateProgram> &program) -> Status {
      auto result = UpdateProgram::read(kind, given, function,
                                        options_.weightDecay ? settings : options_.settings,
                                        code_.builder.getContext());
      if (result.ok())
        program = std::move(*result);
      return result.status();
    };
    if (Status status = read("optimiser", options_.optimiser, "update", optimiser_); !status.ok())
      return status;
    if (Status status = read("schedule", options_.schedule, "rate", schedule_); !status.ok())
      return status;
    for (const std::string &name : optimiser_->parameters())
      if (!llvm::is_contained(kGiven, name))
        slots_.push_back(name);
    return checkSettings();
  }

  Status checkSettings() const {
    for (const auto &[name, value] : options_.settings) {
      bool known = llvm::is_contained(optimiser_->settings(), name) ||
                   llvm::is_contained(schedule_->settings(), name);
      if (known)
        continue;
      std::string all;
      for (const auto *program : {&*optimiser_, &*schedule_})
        for (const std::string &setting : program->settings())
          all += (all.empty() ? "" : ", ") + setting;
      return invalidArgument("neither " + optimiser_->name() + " nor " + schedule_->name() +
                             " has a setting '" + name + "'; there " +
                             (all.empty() ? "is none" : "are " + all));
    }
    return {};
  }

  /// Gradients that are longer together than the limit are scaled down to it.
  void clip(SmallVectorImpl<Value> &gradients) {
    if (!options_.clipNorm)
      return;
    Value sum;
    for (Value gradient : gradients) {
      Value wide = code_.widen(gradient);
      auto axes = llvm::to_vector(llvm::seq<int64_t>(0, GraphCode::rank(wide)));
      Value square = code_.reduce("graph.reduce_sum", code_.mul(wide, wide), axes, false);
      square = code_.cast(square, code_.builder.getF32Type());
      sum = sum ? code_.add(sum, square) : square;
    }
    constexpr double kLeast = 1e-6;
    Value norm = code_.add(code_.unary("graph.sqrt", sum), kLeast);
    Value factor = code_.div(code_.scalar(norm, options_.clipNorm), norm);
    factor = code_.op("graph.min", {factor, code_.scalar(factor, 1)});
    for (Value &gradient : gradients)
      gradient = code_.mul(gradient, code_.cast(factor, GraphCode::element(gradient)));
  }

  /// Decay is the optimiser's where it has a setting of that name, and part of the gradient
  /// elsewhere.
  Value applyDecay(Value parameter, Value gradient) const {
    if (!options_.weightDecay || llvm::is_contained(optimiser_->settings(), kDecay))
      return gradient;
    return code_.add(gradient, code_.mul(parameter, options_.weightDecay));
  }

  Status update(const Parameter &parameter, Value gradient) {
    Value old = parameter.state;
    Type element = GraphCode::element(old);
    NamedValues arguments = {{"parameter", old},
                             {"gradient", applyDecay(old, gradient)},
                             {"learning_rate", code_.cast(rate_, element)},
                             {"step", code_.cast(count_, element)}};
    SmallVector<BlockArgument> states{parameter.state};
    for (const std::string &slot : slots_) {
      auto state =
          function_.addState(slot + "." + parameter.name, old.getType(), StateKind::Slot, {});
      if (!state.ok())
        return state.status();
      states.push_back(*state);
      arguments.push_back({slot, states.back()});
    }
    auto results = optimiser_->apply(arguments, code_.builder);
    if (!results.ok())
      return results.status().within("update of '" + parameter.name + "'");
    bool fits = results->size() == states.size() &&
                llvm::all_of(*results, [&](Value v) { return v.getType() == old.getType(); });
    if (!fits)
      return Status(StatusCode::InvalidModel,
                    optimiser_->name() + ": update must give the new parameter and its " +
                        std::to_string(slots_.size()) +
                        " slots after it, all of the parameter's type and shape");
    for (auto [state, value] : llvm::zip_equal(states, *results))
      updates_.push_back({state, value});
    return options_.emaDecay ? average(parameter, (*results)[0]) : Status();
  }

  Status average(const Parameter &parameter, Value next) {
    unsigned number = parameter.state.getArgNumber();
    auto state = function_.addState("ema." + parameter.name, next.getType(), StateKind::Slot,
                                    function_.initial(number));
    if (!state.ok())
      return state.status();
    updates_.push_back({*state, code_.add(code_.mul(*state, options_.emaDecay),
                                          code_.mul(next, 1 - options_.emaDecay))});
    return {};
  }

  StepFunction &function_;
  const Options &options_;
  GraphCode &code_;
  std::optional<UpdateProgram> optimiser_, schedule_;
  std::vector<std::string> slots_;
  Value count_, rate_; // of this step, from 1; f32 scalars
  std::vector<StepFunction::Update> updates_;
};

} // namespace

Status addUpdates(StepFunction &function, ArrayRef<Parameter> parameters, ArrayRef<Value> gradients,
                  BlockArgument step, const Options &options, GraphCode &code) {
  return Updates(function, options, code).run(parameters, gradients, step);
}

} // namespace tensmith::training
