// Estimated times of kernels and of operators by reference; see ReferenceWarnings.h.
#include "compiler/pipeline/ReferenceWarnings.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/CostModel.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/kernel/WindowElement.h"
#include "compiler/kernel/Work.h"
#include "compiler/rewrite/Rewrites.h"

#include <cmath>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// The part of all time from which on an operator is named.
constexpr double kNotable = 0.05;
/// What a size is counted as that only the run knows.
constexpr int64_t kUsualSize = 128;

double numberOf(AffineExpr expression, size_t symbols) {
  MLIRContext *context = expression.getContext();
  SmallVector<AffineExpr> usual(symbols, getAffineConstantExpr(kUsualSize, context));
  auto known = dyn_cast<AffineConstantExpr>(expression.replaceSymbols(usual));
  return known ? std::max(double(known.getValue()), 0.0) : 0;
}

double cyclesOfKernel(graph::KernelOp op, const kernel::Machine &machine) {
  kernel::Work work = kernel::workOf(op);
  if (!work.flops)
    return 0;
  double operations = numberOf(work.flops, work.symbols.size()),
         bytes = numberOf(work.bytes, work.symbols.size());
  using Kind = kernel::KernelWork::Kind;
  Kind kind = kernel::multiplies(op, machine) ? Kind::Products : Kind::Elements;
  return kernel::cyclesOf(kernel::KernelWork{operations, bytes, kind}, machine);
}

/// Of what the plan has a routine for; nothing else is done by the evaluator.
bool isRoutine(Operation *op) {
  auto concat = dyn_cast<graph::ConcatOp>(op);
  return graph::isOperator(op) && op->getNumResults() > 0 && op->getNumRegions() == 0 &&
         !(concat && concat.getInPlace()) &&
         !isa<graph::ConstantOp, graph::NoneOp, graph::ReshapeOp, graph::ShapeOp, graph::SizeOp>(
             op);
}

double cyclesOfRoutine(Operation *op, const kernel::Machine &machine) {
  auto work = kernel::workOfOperator(op);
  if (!work || !work->flops)
    return 0;
  return kernel::cyclesOf(kernel::KernelWork{numberOf(work->flops, work->symbols.size()),
                                             numberOf(work->bytes, work->symbols.size()),
                                             kernel::KernelWork::Kind::Reference},
                          machine);
}

std::string reasonOf(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Type each : types) {
    if (isa<NoneType>(each))
      continue;
    auto type = dyn_cast<RankedTensorType>(each);
    if (!type)
      return "only the run knows how many dimensions its tensors have";
    if (!graph::kernelElementType(type.getElementType()))
      return "there is no code for its elements";
  }
  if (!rewrite::hasKnownSizes(op))
    return "the size of its result is known when it is computed, and not before";
  if (isa<graph::Elementwise, graph::Indexed>(op) || kernel::hasWindowElement(op))
    return "only the run knows whether its sizes agree, or there is no code for its types";
  return "there is no code for it with these attributes and sizes";
}

} // namespace

std::vector<std::string> referenceWarnings(ArrayRef<func::FuncOp> functions,
                                           const kernel::Machine &machine) {
  double all = 0;
  std::vector<std::pair<Operation *, double>> routines;
  for (func::FuncOp function : functions)
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto kernel = dyn_cast<graph::KernelOp>(op)) {
        all += cyclesOfKernel(kernel, machine);
        return WalkResult::skip();
      }
      if (isRoutine(op)) {
        routines.emplace_back(op, cyclesOfRoutine(op, machine));
        all += routines.back().second;
      }
      return WalkResult::advance();
    });
  std::vector<std::string> warnings;
  for (auto [op, cycles] : routines) {
    StringRef name = graph::operatorName(op);
    bool isSlow = cycles > kNotable * all, isOfPlugin = name.contains('.');
    if (!isSlow && !isOfPlugin)
      continue;
    std::string slow = isSlow ? ", which is slow (about " +
                                    std::to_string(int(std::lround(100 * cycles / all))) +
                                    " % of a run's time)"
                              : "";
    std::string plugin = isOfPlugin ? ". The module needs its plug-in where it runs, which "
                                      "tensmith-run can't load"
                                    : "";
    warnings.push_back(graph::describe(op->getLoc()) + ": '" + name.str() +
                       "' is done by reference" + slow + ": " + reasonOf(op) + plugin);
  }
  return warnings;
}

} // namespace tensmith::pipeline
