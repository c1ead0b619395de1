// The table of rewrites, and what is done around one; see Stages.h.
#include "compiler/pipeline/Stages.h"

#include "compiler/graph/Graph.h"
#include "compiler/rewrite/FourierPasses.h"
#include "compiler/rewrite/ShareKernels.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

LogicalResult eliminateCommon(func::FuncOp function, const rewrite::Options &) {
  PassManager passes(function.getContext(), func::FuncOp::getOperationName());
  passes.enableVerifier(false);
  passes.addPass(createCSEPass());
  return passes.run(function);
}

/// Of kernels that only lay a matrix out, those that do the same are one. Others that are equal are
/// so on purpose: what is made again is not kept meanwhile.
LogicalResult layOutOnce(func::FuncOp function, const rewrite::Options &) {
  function.walk([](Block *block) {
    SmallVector<graph::KernelOp> seen;
    for (auto kernel : llvm::make_early_inc_range(block->getOps<graph::KernelOp>())) {
      auto isLayout = [](Operation &op) { return isa<graph::PackOp, graph::TransposeOp>(op); };
      if (!llvm::all_of(kernel.getBody().front().without_terminator(), isLayout))
        continue;
      auto same = llvm::find_if(seen, [&](graph::KernelOp other) {
        return OperationEquivalence::isEquivalentTo(other, kernel,
                                                    OperationEquivalence::IgnoreLocations);
      });
      if (same == seen.end()) {
        seen.push_back(kernel);
        continue;
      }
      kernel->replaceAllUsesWith(*same);
      kernel->erase();
    }
  });
  return success();
}

// Products of codes before folding makes numbers of the weights' codes. Passes of convolutions
// before decomposition takes their gradients apart, which is early, so that the parts of larger
// operators are simplified and fused like any; what becomes straight code must be so before folding
// and layout see it. Folding again after the layout has transposed constants, and at the end for
// those that fusion has packed. Libraries get their operators before these are transformed for
// kernels. What fusion lays out for a product it lays out for each: a matrix that several multiply
// by, as the weights of a recurrence whose steps are straight code, is laid out once.
constexpr Stage kRewrites[] = {{"check-sizes", rewrite::checkSizes},
                               {"simplify", rewrite::simplify},
                               {"integer-products", rewrite::multiplyIntegers},
                               {"fold-constants", rewrite::foldConstants},
                               {"fourier-passes", rewrite::fourierPasses},
                               {"decompose", rewrite::decompose},
                               {"straighten", rewrite::straighten},
                               {"fold-constants", rewrite::foldConstants},
                               {"cse", eliminateCommon},
                               {"order-products", rewrite::orderProducts},
                               {"merge-scans", rewrite::mergeScans},
                               {"one-hot-sums", rewrite::pickOneHot},
                               {"layout", rewrite::chooseLayout},
                               {"fold-constants", rewrite::foldConstants},
                               {"pooled-codes", rewrite::poolCodes},
                               {"rounded-scales", rewrite::mergeScales},
                               {"integer-codes", rewrite::limitCodes},
                               {"libraries", rewrite::callLibraries},
                               {"fourier", rewrite::fourier},
                               {"winograd", rewrite::winograd},
                               {"strassen", rewrite::strassen},
                               {"cse", eliminateCommon},
                               {"mixed-precision", rewrite::mixPrecision},
                               {"narrow-operands", rewrite::narrowOperands},
                               {"merge-groups", rewrite::mergeGroups},
                               {"narrow-results", rewrite::narrowResults},
                               {"round-early", rewrite::roundEarly},
                               {"cse", eliminateCommon},
                               {"turn-products", rewrite::turnProducts},
                               {"sum-columns", rewrite::sumColumns},
                               {"compile-loops", rewrite::compileLoops},
                               {"fuse-updates", rewrite::fuseUpdates},
                               {"repeat-elementwise", rewrite::repeatElementwise},
                               {"attention-gradients", rewrite::fuseAttentionGradients},
                               {"fuse-rows", rewrite::fuseRows},
                               {"sum-rows", rewrite::sumRows},
                               {"fuse", rewrite::fuse},
                               {"lay-out-once", layOutOnce},
                               {"hoist", rewrite::hoist},
                               {"order-updates", rewrite::orderUpdates},
                               {"join-in-place", rewrite::joinInPlace},
                               {"share-kernels", rewrite::shareKernels},
                               {"prove-sizes", rewrite::proveSizes}};

} // namespace

std::vector<Stage> rewritesInOrder() {
  std::vector<Stage> all(std::begin(kRewrites), std::end(kRewrites));
  for (const rewrite::Rewrite *row : rewrite::rewrites().rows()) {
    StringRef after(row->after);
    if (after.empty())
      continue;
    after.consume_front("graph-");
    auto place =
        llvm::find_if(all, [&](const Stage &stage) { return StringRef(stage.name) == after; });
    while (place != all.end() && ++place != all.end() && place->after == row->after)
      ;
    all.insert(place, {row->name, row->run, row->after});
  }
  return all;
}

Status runStage(const Stage &stage, func::FuncOp function, const rewrite::Options &options) {
  std::string name = "rewrite '" + std::string(stage.name) + "'";
  if (stage.after.empty())
    return failed(stage.run(function, options)) ? Status(StatusCode::Internal, name + " failed")
                                                : Status();
  try {
    if (failed(stage.run(function, options)))
      return {StatusCode::Internal, name + " failed"};
  } catch (const std::bad_alloc &) {
    throw; // is what it says
  } catch (const std::exception &error) {
    return {StatusCode::Internal, name + " threw: " + error.what()};
  } catch (...) {
    return {StatusCode::Internal, name + " threw what is no exception"};
  }
  return failed(mlir::verify(function))
             ? Status(StatusCode::Internal, name + " leaves a graph that isn't valid")
             : Status();
}

} // namespace tensmith::pipeline
