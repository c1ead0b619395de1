// What makes a program's straight-line code longer before it is cut into segments (Outlining.cpp).
#include "compiler/program/Segments.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/program/Knowledge.h"
#include "compiler/program/PartialEvaluation.h"
#include "compiler/program/Program.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tensmith::program {
namespace {

constexpr size_t kMostInlined = 200; // operators of a function that is inlined

bool isTensorCode(Operation *op) { return graph::isOperator(op); }

// ---- inlining ----

/// Whether the type has a size that means something else with each call.
bool hasLocalSize(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return ranked && llvm::any_of(graph::symbolNames(ranked), isLocalSize);
}

/// Whether the function is one block of tensor code and of building and taking apart.
bool isStraight(func::FuncOp function) {
  size_t count = 0;
  for (Operation &op : function.getBody().front().without_terminator())
    if (++count > kMostInlined || !(isTensorCode(&op) || isa<ConstructOp, FieldOp>(op)) ||
        llvm::any_of(op.getResultTypes(), hasLocalSize))
      return false;
  return true;
}

void inlineCall(CallOp call, func::FuncOp callee) {
  IRMapping mapping;
  Block &body = callee.getBody().front();
  mapping.map(body.getArguments(), call.getInputs());
  OpBuilder builder(call);
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  call.getResult().replaceAllUsesWith(mapping.lookup(body.getTerminator()->getOperand(0)));
  call.erase();
}

/// Functions become straight as those that they call are inlined; so until nothing changes.
void inlineStraightCalls(ModuleOp module) {
  SymbolTable symbols(module);
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<std::pair<CallOp, func::FuncOp>> calls;
    llvm::DenseMap<Operation *, bool> straight;
    module.walk([&](CallOp call) {
      auto callee = symbols.lookup<func::FuncOp>(call.getProcedure());
      auto [known, isNew] = straight.try_emplace(callee, false);
      if (isNew)
        known->second = isStraight(callee) && !callee->hasAttr(kWhole);
      // Sizes of which the callee knows nothing have names of its own there.
      bool alike = TypeRange(callee.getArgumentTypes()) == TypeRange(call.getInputs()) &&
                   callee.getResultTypes().front() == call.getType();
      if (known->second && alike)
        calls.push_back({call, callee});
    });
    for (auto [call, callee] : calls) {
      inlineCall(call, callee);
      changed = true;
    }
  }
}

// ---- sinking ----

/// The region of one of the block's operators that has all uses of `op`, or null.
Region *onlyRegion(Operation *op) {
  Region *region = nullptr;
  for (Operation *user : op->getUsers()) {
    Region *own = user->getParentRegion();
    while (own && own->getParentOp() && own->getParentOp()->getBlock() != op->getBlock())
      own = own->getParentOp()->getParentRegion();
    if (!own || user->getBlock() == op->getBlock() || (region && region != own))
      return nullptr;
    region = own;
  }
  return region;
}

void sinkBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isMemoryEffectFree(&op))
      if (Region *region = onlyRegion(&op))
        op.moveBefore(&region->front(), region->front().begin());
  }
  for (Operation &op : block)
    for (Region &region : op.getRegions())
      if (isa<MatchOp, IfOp>(op))
        sinkBlock(region.front());
}

SmallVector<func::FuncOp> proceduresOf(ModuleOp module) {
  SmallVector<func::FuncOp> procedures;
  for (auto function : module.getOps<func::FuncOp>())
    if (isProcedure(function))
      procedures.push_back(function);
  return procedures;
}

void dropUnused(ModuleOp module) {
  for (bool changed = true; changed;) {
    changed = false;
    llvm::DenseSet<StringRef> used;
    module.walk([&](Operation *op) {
      for (NamedAttribute attribute : op->getAttrs())
        if (auto symbol = dyn_cast<FlatSymbolRefAttr>(attribute.getValue()))
          used.insert(symbol.getValue());
    });
    for (func::FuncOp procedure : proceduresOf(module))
      if (!used.contains(procedure.getName())) {
        procedure.erase();
        changed = true;
      }
  }
}

} // namespace

LogicalResult simplifyProgram(ModuleOp module) {
  inlineStraightCalls(module);
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  if (failed(passes.run(module)))
    return failure();
  dropUnused(module);
  for (func::FuncOp procedure : proceduresOf(module))
    sinkBlock(procedure.getBody().front());
  return success();
}

} // namespace tensmith::program
