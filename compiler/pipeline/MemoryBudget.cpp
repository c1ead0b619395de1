// Costs of kernels, copies of the module that are measured, and messages; see MemoryBudget.h.
#include "compiler/pipeline/MemoryBudget.h"

#include "base/Budget.h"
#include "compiler/autodiff/Differentiate.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/ProcessReduction.h"
#include "compiler/program/Program.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/vm/Recomputation.h"

#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// Of processes, who wait for the last of them.
constexpr double kMeetingCycles = 1e6, kMeetingSeconds = 3e-4;

/// Whether processes meet in it.
bool isMeeting(graph::KernelOp op) { return libraries::libraryOf(op) == graph::kProcesses; }

/// Of a kernel whose work only the run knows, a little.
double cyclesOf(const vm::KernelBinding &binding, const vm::PlanInput &plan) {
  auto operations = dyn_cast_or_null<AffineConstantExpr>(binding.flops),
       bytes = dyn_cast_or_null<AffineConstantExpr>(binding.bytes);
  bool isKnown = operations && bytes;
  return plan.cycles(isKnown ? double(operations.getValue()) : 0,
                     isKnown ? double(bytes.getValue()) : 0, binding.multiplies);
}

class BudgetSearch {
public:
  BudgetSearch(ModuleOp module, const CompileOptions &options, vm::PlanInput &plan,
               const KernelSeconds &measure)
      : module_(module), options_(options), plan_(plan), seconds_(measure) {
    cost_ = [this](graph::KernelOp op) { return priceOf(op); };
  }

  Status run() {
    auto recorded = vm::record(plan_.function, cost_);
    // What is left of a loop in parts has sizes that the run tells.
    if (!recorded.ok() && !options_.memoryBudget && module_->hasAttr(autodiff::kCheckpointed))
      return {};
    if (!recorded.ok())
      return recorded.status().within(options_.model);
    auto without = vm::buildPlan(plan_);
    if (!without.ok())
      return without.status();
    if (options_.memoryBudget && without->runBytes <= options_.memoryBudget) {
      if (without->runBytes + kForWords <= options_.memoryBudget)
        describe({std::nullopt, without->arenaBytes}, without->arenaBytes);
      return {};
    }
    if (recorded->tape.turn == 0)
      return unsupported(options_.model + ": the first output is no result of a computation, so "
                                          "that there is no way to it to keep less of");
    beside_ = without->runBytes - without->arenaBytes;
    if (Status status = measureKernels(); !status.ok())
      return status;
    if (!prices_.empty())
      recorded = vm::record(plan_.function, cost_);
    vm::RecomputationRequest request;
    request.plan = planOf(options_.recomputation);
    if (options_.memoryBudget)
      request.bytes = std::max<int64_t>(options_.memoryBudget - beside_ - kForWords, 0);
    int64_t least = without->arenaBytes;
    auto chosen = vm::chooseRecomputation(
        recorded->tape, request, [this](const vm::Replay &replay) { return measure(replay); },
        least);
    if (chosen.status().code() == StatusCode::ResourceExhausted)
      return {StatusCode::ResourceExhausted,
              llvm::formatv(
                  "{0}: a run can't be held within {1} bytes: the least is {2}, of which {3} "
                  "are its inputs, outputs, constants and program; take a smaller batch, or that "
                  "much",
                  options_.model, options_.memoryBudget, least + beside_ + kForWords, beside_)};
    if (!chosen.ok())
      return chosen.status();
    if (!options_.memoryBudget && chosen->arenaBytes >= without->arenaBytes)
      *chosen = {std::nullopt, without->arenaBytes}; // work for nothing
    describe(*chosen, without->arenaBytes);
    return chosen->keeping ? put(*recorded, *chosen->keeping) : Status();
  }

  static vm::RecomputationPlan planOf(StringRef name) {
    return name == "segments"    ? vm::RecomputationPlan::Segments
           : name == "recursive" ? vm::RecomputationPlan::Recursive
                                 : vm::RecomputationPlan::Cost;
  }

private:
  int64_t numberOf(graph::KernelOp op) {
    return op->getAttrOfType<IntegerAttr>(kKernelNumber).getInt();
  }

  double priceOf(graph::KernelOp op) {
    if (isMeeting(op))
      return prices_.empty() ? kMeetingCycles : kMeetingSeconds;
    auto measured = prices_.find(numberOf(op));
    return measured != prices_.end() ? measured->second : cyclesOf(plan_.kernel(op), plan_);
  }

  /// Of each kernel once, for the plan that goes by prices. Measured or estimated are all of them.
  Status measureKernels() {
    if (!seconds_ || planOf(options_.recomputation) != vm::RecomputationPlan::Cost)
      return {};
    for (auto op : plan_.function.getOps<graph::KernelOp>()) {
      if (isMeeting(op) || prices_.contains(numberOf(op)))
        continue;
      if (Status status = checkTime(); !status.ok())
        return status.within(options_.model);
      auto seconds = seconds_(op);
      if (!seconds.ok()) {
        prices_.clear();
        if (options_.warn)
          options_.warn(options_.model + ": " + graph::describe(op.getLoc()) +
                        ": the kernel's time is not measured, and what is computed again is "
                        "chosen by estimates: " +
                        seconds.status().message());
        return {};
      }
      prices_[numberOf(op)] = *seconds;
    }
    return {};
  }

  Status put(const vm::RecordedFunction &recorded, const vm::Keeping &keeping) {
    vm::Replayer replayer(recorded.tape);
    vm::insertCopies(plan_.function, recorded,
                     replayer.replay(keeping, std::numeric_limits<double>::infinity()));
    return order(plan_.function);
  }

  Status order(func::FuncOp function) {
    if (failed(rewrite::orderUpdates(function, {})))
      return {StatusCode::Internal, options_.model + ": rewrite 'order-updates' failed"};
    return {};
  }

  Result<int64_t> measure(const vm::Replay &replay) {
    if (Status status = checkTime(); !status.ok())
      return status;
    OwningOpRef<ModuleOp> copy = module_.clone();
    vm::PlanInput input = plan_;
    input.function = copy->lookupSymbol<func::FuncOp>(plan_.function.getName());
    auto recorded = vm::record(input.function, cost_);
    if (!recorded.ok())
      return recorded.status();
    vm::insertCopies(input.function, *recorded, replay);
    if (Status status = order(input.function); !status.ok())
      return status;
    auto plan = vm::buildPlan(input);
    return plan.ok() ? Result<int64_t>(plan->runBytes - beside_) : plan.status();
  }

  void describe(const vm::Recomputation &chosen, int64_t without) {
    plan_.recomputation = llvm::formatv(
        "{0} kernels run again, {1:f1} % of the {2}; arena and plan have "
        "{3} bytes instead of {4}",
        chosen.copies, 100 * chosen.work, prices_.empty() ? "work as estimated" : "measured time",
        chosen.arenaBytes, without);
  }

  static constexpr int64_t kForWords = 4096; // of the choice, in the module's metadata

  ModuleOp module_;
  const CompileOptions &options_;
  vm::PlanInput &plan_;
  const KernelSeconds &seconds_;
  vm::KernelCost cost_;
  llvm::DenseMap<int64_t, double> prices_; // in seconds, by the kernels' numbers
  int64_t beside_ = 0;                     // bytes of a run that no plan changes
};

} // namespace

Status checkBudget(const CompileOptions &options) {
  if (options.memoryBudget < 0)
    return invalidArgument("the memory of a run must be a number of bytes from 0 on");
  if (llvm::is_contained({"", "cost", "segments", "recursive"}, options.recomputation))
    return {};
  return invalidArgument("there is no plan '" + options.recomputation +
                         "' of what is computed again; there are cost, segments and recursive");
}

Status meetBudget(ModuleOp module, const CompileOptions &options, vm::PlanInput &plan,
                  const KernelSeconds &measure) {
  bool isProgram = llvm::any_of(module.getOps<func::FuncOp>(), program::isProcedure);
  if (isProgram && options.memoryBudget == 0)
    return {}; // its derivative was made for it
  if (isProgram)
    return unsupported(options.model +
                       ": calls, branches or values that are no tensors are left of the program, "
                       "and procedures take memory as they run, which can't be planned to a "
                       "budget; leave out memory and recomputation");
  return BudgetSearch(module, options, plan, measure).run();
}

} // namespace tensmith::pipeline
