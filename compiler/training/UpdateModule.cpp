// The rest of a step whose gradients are computed elsewhere, as a module of its own; see Updates.h.
//
// Between the two halves of a step the gradients of several processes are summed, and a process may
// update a part of the parameters alone: a slice of a vector that has several of them one after the
// other, where what an optimiser does to an element must not depend on the others; or of each one
// its own (Parts.h).
#include "compiler/training/LossScale.h"
#include "compiler/training/Parts.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

/// The first operator that mixes elements of what has any dimension; null where there is none.
Operation *mixing(Block &block) {
  for (Operation &op : block.without_terminator()) {
    bool scalar = llvm::all_of(op.getOperandTypes(), [](Type type) {
      auto ranked = dyn_cast<RankedTensorType>(type);
      return ranked && ranked.getRank() == 0;
    });
    if (!scalar && !isa<graph::Elementwise>(op))
      return &op;
  }
  return nullptr;
}

class UpdateFunction {
public:
  UpdateFunction(func::FuncOp main, ArrayRef<Updated> tensors, const Options &options,
                 int64_t processes)
      : function_(main), tensors_(tensors), options_(options), processes_(processes),
        builder_(OpBuilder::atBlockTerminator(&function_.block())), shapes_(main.getContext()),
        graph_(builder_, shapes_, main.getLoc()), code_(graph_) {
    options_.clipNorm = 0;
  }

  Status build() {
    for (auto stage : {&UpdateFunction::addInputs, &UpdateFunction::addStates,
                       &UpdateFunction::update, &UpdateFunction::shareOut})
      if (Status status = (this->*stage)(); !status.ok())
        return status;
    return {};
  }

private:
  bool isSharedOut() const {
    return llvm::any_of(tensors_, [](const Updated &tensor) { return tensor.part != 0; });
  }

  Status addInputs() {
    for (const Updated &tensor : tensors_) {
      auto gradient = function_.addInput("gradient." + tensor.name, tensor.type);
      if (!gradient.ok())
        return gradient.status();
      gradients_.push_back(*gradient);
    }
    auto number = [&](const char *name, Type type, Value &value) {
      auto input = function_.addInput(name, RankedTensorType::get({}, type));
      if (input.ok())
        value = *input;
      return input.status();
    };
    Status status = number("scale", builder_.getF32Type(), scale_);
    return status.ok() && isSharedOut() ? number(kProcess, builder_.getI64Type(), process_)
                                        : status;
  }

  Status addStates() {
    for (auto [tensor, gradient] : llvm::zip_equal(tensors_, gradients_)) {
      auto state = function_.addState(tensor.name, tensor.type, StateKind::Parameter, {});
      if (!state.ok())
        return state.status();
      parameters_.push_back({tensor.name, *state});
      gradient = code_.mul(gradient, code_.cast(scale_, GraphCode::element(gradient)));
    }
    auto count = function_.addState("step", RankedTensorType::get({}, builder_.getI64Type()),
                                    StateKind::Step, {});
    if (!count.ok())
      return count.status();
    count_ = *count;
    if (!options_.scalesLoss || tensors_.empty()) // of no tensors they are updated elsewhere
      return {};
    auto scale = LossScale::add(function_);
    if (scale.ok())
      lossScale_ = *scale;
    return scale.status();
  }

  Status update() {
    auto programs = readPrograms(options_, builder_.getContext());
    if (!programs.ok())
      return programs.status();
    Status status =
        addUpdates(function_, {parameters_, gradients_, {}}, count_, options_, *programs, code_);
    if (!status.ok() || !lossScale_)
      return status;
    lossScale_->judge(scale_, code_);
    lossScale_->guard(function_, code_);
    return {};
  }

  Status shareOut() {
    std::string optimiser = "the optimiser " + options_.optimiser;
    if (isSharedOut()) {
      Status status = takeParts(function_, tensors_, processes_, process_, code_);
      return status.ok() ? status : Status(status.code(), optimiser + " " + status.message());
    }
    Operation *op = processes_ > 1 ? mixing(function_.block()) : nullptr;
    return op ? unsupported(optimiser + " reads several elements of a parameter to update one (" +
                            op->getName().getStringRef().str() +
                            "), and so can't update a part of it by itself")
              : Status();
  }

  StepFunction function_;
  ArrayRef<Updated> tensors_;
  Options options_;
  int64_t processes_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  GraphCode code_;
  SmallVector<Value> gradients_;
  std::vector<Parameter> parameters_;
  BlockArgument count_;
  Value scale_, process_;
  std::optional<LossScale> lossScale_;
};

} // namespace

Result<OwningOpRef<ModuleOp>> makeUpdate(ArrayRef<Updated> tensors, const Options &options,
                                         int64_t processes, MLIRContext &context) {
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (problem.empty())
      problem = diagnostic.str();
    return success();
  });
  Location location = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  OpBuilder builder(module->getBodyRegion());
  auto main = builder.create<func::FuncOp>(location, "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(main.addEntryBlock());
  builder.create<func::ReturnOp>(location);
  if (Status status = UpdateFunction(main, tensors, options, processes).build(); !status.ok())
    return status;
  if (!problem.empty())
    return Status(StatusCode::Internal, problem);
  return std::move(module);
}

} // namespace tensmith::training
