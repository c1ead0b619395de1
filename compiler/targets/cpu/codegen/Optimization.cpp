// The pipeline; see Optimization.h.
#include "compiler/targets/cpu/codegen/Optimization.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/BDCE.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/DivRemPairs.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/InstSimplifyPass.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopDeletion.h"
#include "llvm/Transforms/Scalar/LoopInstSimplify.h"
#include "llvm/Transforms/Scalar/LoopLoadElimination.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopSimplifyCFG.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimpleLoopUnswitch.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Vectorize/LoopVectorize.h"
#include "llvm/Transforms/Vectorize/SLPVectorizer.h"
#include "llvm/Transforms/Vectorize/VectorCombine.h"

namespace tensmith::targets::cpu {
namespace {

/// The vectoriser compares each access of a loop with each other one, in minutes for a few
/// thousand; what has so many is straight code that it would leave as it is anyway.
constexpr size_t kMostAccesses = 512;

bool isLarge(const llvm::Loop &loop) {
  size_t accesses = 0;
  for (llvm::BasicBlock *block : loop.blocks())
    for (llvm::Instruction &instruction : *block)
      accesses += instruction.mayReadOrWriteMemory();
  return loop.isInnermost() && accesses > kMostAccesses;
}

struct LeaveLargeLoops : llvm::PassInfoMixin<LeaveLargeLoops> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
    for (llvm::Loop *loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder())
      if (isLarge(*loop))
        llvm::addStringMetadataToLoop(loop, "llvm.loop.vectorize.enable", 0);
    return llvm::PreservedAnalyses::all();
  }
};

/// Does as much for each loop, and can't be told to leave one.
struct EliminateLoads : llvm::PassInfoMixin<EliminateLoads> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
    auto loops = analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder();
    bool anyLarge = llvm::any_of(loops, [](llvm::Loop *loop) { return isLarge(*loop); });
    return anyLarge ? llvm::PreservedAnalyses::all()
                    : llvm::LoopLoadEliminationPass().run(function, analyses);
  }
};

llvm::SimplifyCFGOptions simplest() {
  return llvm::SimplifyCFGOptions().convertSwitchRangeToICmp(true);
}

llvm::SimplifyCFGOptions merging() {
  return simplest().hoistCommonInsts(true).sinkCommonInsts(true);
}

llvm::LICMPass invariants() { return llvm::LICMPass(llvm::LICMOptions()); }

void addSimplification(llvm::FunctionPassManager &passes) {
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass(simplest()));
  passes.addPass(llvm::InstCombinePass());
}

/// Whether elements are computed or stored one by one, which the vectorisers may do together.
bool hasScalarWork(const llvm::Module &module) {
  auto isScalarWork = [](const llvm::Instruction &instruction) {
    if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
      return !store->getValueOperand()->getType()->isVectorTy();
    return instruction.getType()->isFloatingPointTy() && !llvm::isa<llvm::LoadInst>(instruction);
  };
  return llvm::any_of(module, [&](const llvm::Function &function) {
    return llvm::any_of(llvm::instructions(function), isScalarWork);
  });
}

void addLoopShapes(llvm::FunctionPassManager &passes) {
  llvm::LoopPassManager shape;
  shape.addPass(llvm::LoopInstSimplifyPass());
  shape.addPass(llvm::LoopSimplifyCFGPass());
  shape.addPass(invariants());
  shape.addPass(llvm::LoopRotatePass());
  shape.addPass(invariants());
  shape.addPass(llvm::SimpleLoopUnswitchPass(/*NonTrivial=*/true));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(shape), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass(simplest()));
}

void addCleanUp(llvm::FunctionPassManager &passes) {
  passes.addPass(llvm::DSEPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(invariants(), /*UseMemorySSA=*/true));
  passes.addPass(llvm::ADCEPass());
  passes.addPass(llvm::SimplifyCFGPass(merging()));
  passes.addPass(llvm::InstCombinePass());
}

/// Of code whose loops may become vectors.
void addLoops(llvm::FunctionPassManager &passes) {
  addLoopShapes(passes);
  llvm::LoopPassManager variables;
  variables.addPass(llvm::IndVarSimplifyPass());
  variables.addPass(llvm::LoopDeletionPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(variables)));
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::BDCEPass());
  passes.addPass(llvm::InstCombinePass());
  addCleanUp(passes);
}

/// Of code that a template wrote in vectors, as most is: what the vectorisers and their preparation
/// would find took two thirds of the time, and made the code no better. Induction variables in
/// another form cost register tiles 1 to 2 %.
void addLoopsOfVectors(llvm::FunctionPassManager &passes) {
  addLoopShapes(passes);
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::BDCEPass());
  addCleanUp(passes);
  passes.addPass(llvm::InferAlignmentPass());
  passes.addPass(llvm::DivRemPairsPass());
  passes.addPass(llvm::SimplifyCFGPass(simplest()));
}

void addVectors(llvm::FunctionPassManager &passes) {
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LoopRotatePass()));
  passes.addPass(LeaveLargeLoops());
  passes.addPass(llvm::LoopVectorizePass());
  passes.addPass(llvm::InferAlignmentPass());
  passes.addPass(EliminateLoads());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass(
      merging().forwardSwitchCondToPhi(true).convertSwitchToLookupTable(true).needCanonicalLoops(
          false)));
  passes.addPass(llvm::SLPVectorizerPass());
  passes.addPass(llvm::VectorCombinePass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(invariants(), /*UseMemorySSA=*/true));
  passes.addPass(llvm::InstSimplifyPass());
  passes.addPass(llvm::DivRemPairsPass());
  passes.addPass(llvm::SimplifyCFGPass(simplest()));
}

} // namespace

llvm::TargetLibraryInfoImpl noLibrary(const llvm::Module &module) {
  llvm::TargetLibraryInfoImpl library{llvm::Triple(module.getTargetTriple())};
  library.disableAllFunctions();
  return library;
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine, bool loops) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager ofLoops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(noLibrary(module)); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(ofLoops);
  builder.crossRegisterProxies(ofLoops, functions, components, modules);
  llvm::FunctionPassManager passes;
  addSimplification(passes);
  if (loops && hasScalarWork(module)) {
    addLoops(passes);
    addVectors(passes);
  } else if (loops) {
    addLoopsOfVectors(passes);
  }
  llvm::ModulePassManager whole;
  whole.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  whole.run(module, modules);
}

} // namespace tensmith::targets::cpu
