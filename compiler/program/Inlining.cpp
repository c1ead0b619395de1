// Main's body out of the first procedure and into it; see Inlining.h.
#include "compiler/program/Inlining.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/program/Defunctionalization.h"
#include "compiler/program/PartialEvaluation.h"
#include "compiler/program/Program.h"
#include "compiler/program/Structures.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace tensmith::program {
namespace {

func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

bool isProgramCode(Operation &op) { return !graph::isOperator(&op); }

void setSignature(func::FuncOp function) {
  Block &body = function.getBody().front();
  function.setType(FunctionType::get(function.getContext(), body.getArgumentTypes(),
                                     body.getTerminator()->getOperandTypes()));
}

/// The body's operators before `enter`, and its results, which may be the fields of a tuple, in the
/// place of enter's.
void inlineBody(EnterOp enter, func::FuncOp procedure) {
  Block &body = procedure.getBody().front();
  OpBuilder builder(enter);
  IRMapping mapping;
  mapping.map(body.getArguments(), enter.getInputs());
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  Value result = mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
  if (enter.getNumResults() == 1) {
    enter.getResult(0).replaceAllUsesWith(result);
    return;
  }
  for (auto [index, old] : llvm::enumerate(enter.getResults()))
    old.replaceAllUsesWith(
        builder.createOrFold<FieldOp>(enter.getLoc(), old.getType(), result, index));
  if (Operation *tuple = result.getDefiningOp(); tuple && isOpTriviallyDead(tuple))
    tuple->erase();
}

std::string whatIsLeft(Operation &op) {
  return isa<IfOp>(op)      ? "a branch that the data decides"
         : isa<CallOp>(op)  ? "a recursion that the data decides"
         : isa<MatchOp>(op) ? "a match on data that only the run knows"
         : isa<ApplyOp>(op) ? "a call of a function that only the run knows"
                            : "a value that is no tensor";
}

/// What the block's program code is, and what that needs, in their order.
llvm::SetVector<Operation *> sliceOf(Block &block) {
  llvm::SetVector<Operation *> slice;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    bool isNeeded = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return slice.contains(block.findAncestorOpInBlock(*user));
    });
    if (isNeeded || isProgramCode(op))
      slice.insert(&op);
  }
  llvm::SetVector<Operation *> ordered;
  for (Operation *op : llvm::reverse(slice))
    ordered.insert(op);
  return ordered;
}

/// A constant that both sides read is one of each.
void repeatConstants(const llvm::SetVector<Operation *> &slice, Block &block) {
  for (Operation *op : slice) {
    auto isOutside = [&](OpOperand &use) {
      return !slice.contains(block.findAncestorOpInBlock(*use.getOwner()));
    };
    if (!op->hasTrait<OpTrait::ConstantLike>() || llvm::none_of(op->getUses(), isOutside))
      continue;
    OpBuilder builder(op);
    op->getResult(0).replaceUsesWithIf(builder.clone(*op)->getResult(0), isOutside);
  }
}

class Closing {
public:
  explicit Closing(ModuleOp module)
      : module_(module), main_(mainOf(module)), block_(main_.getBody().front()),
        slice_(sliceOf(block_)) {}

  void run() {
    repeatConstants(slice_, block_);
    findResults();
    findInputs();
    func::FuncOp procedure = makeProcedure();
    OpBuilder builder(&block_, block_.begin());
    SmallVector<Type> types(ValueRange(results_).getTypes());
    auto enter = builder.create<EnterOp>(main_.getLoc(), types, inputs_, procedure.getName());
    for (auto [old, now] : llvm::zip_equal(results_, enter.getResults()))
      old.replaceUsesWithIf(now, [&](OpOperand &use) { return main_->isAncestor(use.getOwner()); });
    Block &body = procedure.getBody().front();
    for (auto [outer, inner] : llvm::zip_equal(inputs_, body.getArguments()))
      outer.replaceUsesWithIf(
          inner, [&](OpOperand &use) { return procedure->isAncestor(use.getOwner()); });
  }

private:
  void findResults() {
    for (Operation *op : slice_)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !slice_.contains(block_.findAncestorOpInBlock(*user));
            }))
          results_.push_back(result);
  }

  /// What it takes of main are arguments: all else that it needs is in it.
  void findInputs() {
    for (Value argument : block_.getArguments())
      if (llvm::any_of(argument.getUsers(), [&](Operation *user) {
            return slice_.contains(block_.findAncestorOpInBlock(*user));
          }))
        inputs_.push_back(argument);
  }

  /// Takes the slice out of main.
  func::FuncOp makeProcedure() {
    OpBuilder builder(module_.getContext());
    builder.setInsertionPointToEnd(module_.getBody());
    auto procedure = builder.create<func::FuncOp>(
        main_.getLoc(), "main.step",
        builder.getFunctionType(SmallVector<Type>(ValueRange(inputs_).getTypes()), {}));
    SymbolTable(module_).insert(procedure);
    procedure->setAttr(kProcedure, builder.getUnitAttr());
    Block &body = *procedure.addEntryBlock();
    builder.setInsertionPointToEnd(&body);
    Value result = results_.size() == 1 ? results_[0] : Value();
    for (Operation *op : slice_)
      op->moveBefore(&body, body.end());
    if (!result) {
      auto type = ObjectType::get(builder.getContext(), procedure.getName().str());
      Structures structures(module_);
      structures.add(type, {SmallVector<Type>(ValueRange(results_).getTypes())});
      structures.store(module_);
      result = builder.create<ConstructOp>(main_.getLoc(), type, results_, 0);
    }
    builder.create<func::ReturnOp>(main_.getLoc(), result);
    setSignature(procedure);
    return procedure;
  }

  ModuleOp module_;
  func::FuncOp main_;
  Block &block_;
  llvm::SetVector<Operation *> slice_;
  SmallVector<Value> inputs_, results_;
};

} // namespace

void openProgram(ModuleOp module) {
  auto main = mainOf(module);
  if (!main || main.getOps<EnterOp>().empty())
    return;
  evaluatePartially(module);
  defunctionalize(module);
  EnterOp enter = *main.getOps<EnterOp>().begin();
  auto procedure = module.lookupSymbol<func::FuncOp>(enter.getProcedure());
  inlineBody(enter, procedure);
  enter.erase();
  if (SymbolTable::symbolKnownUseEmpty(procedure, module))
    procedure.erase();
  setSignature(main);
}

Status checkTensorCode(ModuleOp module, StringRef because) {
  auto main = mainOf(module);
  if (!main)
    return {};
  for (Operation &op : main.getBody().front().without_terminator())
    if (isProgramCode(op)) {
      auto named = dyn_cast<NameLoc>(op.getLoc());
      return unsupported((named ? named.getName().str() + ": " : std::string()) + whatIsLeft(op) +
                         " is left of the program once its sizes are known, and " + because.str());
    }
  return {};
}

void closeProgram(ModuleOp module) {
  auto main = mainOf(module);
  if (main && llvm::any_of(main.getBody().front().without_terminator(), isProgramCode) &&
      main.getOps<EnterOp>().empty())
    Closing(module).run();
}

} // namespace tensmith::program
