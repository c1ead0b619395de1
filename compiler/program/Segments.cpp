// A block's tensor code by stages: stage 0 is what needs no call's result, and each operator of the
// program comes after the stage of its operands and before the next. All tensor code of one stage
// is one segment, since nothing of it has to wait for what another part of it leads to.
#include "compiler/program/Segments.h"

#include "compiler/graph/Graph.h"
#include "compiler/program/Program.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::program {
namespace {

constexpr size_t kMostInlined = 200; // operators of a function that is inlined

bool isTensorCode(Operation *op) { return isa_and_nonnull<graph::GraphDialect>(op->getDialect()); }

// ---- inlining ----

/// Whether the function is one block of tensor code and of building and taking apart.
bool isStraight(func::FuncOp function) {
  size_t count = 0;
  for (Operation &op : function.getBody().front().without_terminator())
    if (++count > kMostInlined || !(isTensorCode(&op) || isa<ConstructOp, FieldOp>(op)))
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
        known->second = isStraight(callee);
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
    if (op.getNumRegions() == 0 && isPure(&op))
      if (Region *region = onlyRegion(&op))
        op.moveBefore(&region->front(), region->front().begin());
  }
  for (Operation &op : block)
    for (Region &region : op.getRegions())
      if (isa<MatchOp, IfOp>(op))
        sinkBlock(region.front());
}

// ---- outlining ----

class Outliner {
public:
  explicit Outliner(ModuleOp module) : module_(module) {}

  void run(func::FuncOp procedure) {
    name_ = procedure.getName().str();
    outline(procedure.getBody().front());
  }

private:
  int stageOf(Value value, Block &block) const {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != &block)
      return 0;
    return results_.lookup(op);
  }

  void outline(Block &block) {
    for (Operation &op : block)
      for (Region &region : op.getRegions())
        if (isa<MatchOp, IfOp>(op))
          outline(region.front());
    results_.clear();
    std::vector<SmallVector<Operation *>> tensorCode, others;
    for (Operation &op : block.without_terminator()) {
      int stage = 0;
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          stage = std::max(stage, stageOf(operand, block));
      });
      if (tensorCode.size() <= size_t(stage) + 1)
        tensorCode.resize(stage + 2), others.resize(stage + 2);
      bool constant = isa<graph::ConstantOp>(op);
      if (!constant)
        (isTensorCode(&op) ? tensorCode : others)[stage].push_back(&op);
      results_[&op] = constant || isTensorCode(&op) ? stage : stage + 1;
    }
    Operation *end = block.getTerminator();
    for (auto [code, rest] : llvm::zip_equal(tensorCode, others)) {
      if (!code.empty())
        cut(code, end);
      for (Operation *op : rest)
        op->moveBefore(end);
    }
    // A constant that the program itself uses stands at the block's beginning; the others are gone.
    for (Operation &op : llvm::make_early_inc_range(block))
      if (isa<graph::ConstantOp>(op))
        op.use_empty() ? op.erase() : op.moveBefore(&block, block.begin());
  }

  void cut(ArrayRef<Operation *> code, Operation *before) {
    llvm::SetVector<Operation *> inside(code.begin(), code.end());
    llvm::SetVector<Value> inputs, outputs, constants;
    for (Operation *op : code) {
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands()) {
          Operation *source = operand.getDefiningOp();
          if (source && (inside.contains(source) || op->isProperAncestor(source)))
            continue;
          (operand.getDefiningOp<graph::ConstantOp>() ? constants : inputs).insert(operand);
        }
      });
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(),
                         [&](Operation *user) { return !inside.contains(user); }))
          outputs.insert(result);
    }
    func::FuncOp segment = makeSegment(inputs.getArrayRef(), outputs.getArrayRef(), code);
    OpBuilder builder(before);
    auto invoke = builder.create<InvokeOp>(segment.getLoc(), segment.getResultTypes(),
                                           inputs.getArrayRef(), segment.getName());
    fill(segment, inputs.getArrayRef(), outputs.getArrayRef(), constants.getArrayRef(), code);
    for (auto [output, result] : llvm::zip_equal(outputs.getArrayRef(), invoke.getResults())) {
      Value given = output;
      given.replaceUsesWithIf(result,
                              [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
    }
    for (Operation *op : llvm::reverse(code))
      op->erase();
  }

  func::FuncOp makeSegment(ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                           ArrayRef<Operation *> code) {
    SmallVector<Location> locations;
    for (Operation *op : code)
      locations.push_back(op->getLoc());
    OpBuilder builder(module_.getBodyRegion());
    builder.setInsertionPointToEnd(module_.getBody());
    auto type =
        builder.getFunctionType(ValueRange(inputs).getTypes(), ValueRange(outputs).getTypes());
    auto segment = builder.create<func::FuncOp>(locations.front(),
                                                name_ + "." + std::to_string(++number_), type);
    segment->setAttr(kSegment, builder.getUnitAttr());
    return segment;
  }

  static void fill(func::FuncOp segment, ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                   ArrayRef<Value> constants, ArrayRef<Operation *> code) {
    Block *body = segment.addEntryBlock();
    OpBuilder builder = OpBuilder::atBlockEnd(body);
    IRMapping mapping;
    mapping.map(inputs, body->getArguments());
    for (Value constant : constants)
      builder.clone(*constant.getDefiningOp(), mapping);
    for (Operation *op : code)
      builder.clone(*op, mapping);
    SmallVector<Value> results;
    for (Value output : outputs)
      results.push_back(mapping.lookup(output));
    builder.create<func::ReturnOp>(segment.getLoc(), results);
  }

  ModuleOp module_;
  std::string name_;
  int number_ = 0;
  llvm::DenseMap<Operation *, int> results_; // the first stage that may use an operator's results
};

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

void outlineSegments(ModuleOp module) {
  for (func::FuncOp procedure : proceduresOf(module))
    Outliner(module).run(procedure);
}

} // namespace tensmith::program
