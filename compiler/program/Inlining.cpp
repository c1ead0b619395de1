// The body of the one procedure that partial evaluation has left; see Inlining.h.
#include "compiler/program/Inlining.h"

#include "compiler/graph/Graph.h"
#include "compiler/program/PartialEvaluation.h"
#include "compiler/program/Program.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tensmith::program {
namespace {

Status left(Operation &op, StringRef because) {
  std::string what = isa<IfOp>(op)      ? "a branch that the data decides"
                     : isa<CallOp>(op)  ? "a recursion that the data decides"
                     : isa<MatchOp>(op) ? "a match on data that only the run knows"
                     : isa<ApplyOp>(op) ? "a call of a function that only the run knows"
                                        : "a value that is no tensor";
  std::string place;
  if (auto named = dyn_cast<NameLoc>(op.getLoc()))
    place = named.getName().str() + ": ";
  return unsupported(place + what + " is left of the program once its sizes are known, and " +
                     because.str());
}

/// The body's operators before `enter`, and its results in the place of enter's.
Status inlineBody(EnterOp enter, func::FuncOp procedure, StringRef because) {
  Block &body = procedure.getBody().front();
  Operation *exit = body.getTerminator();
  auto tuple = exit->getOperand(0).getDefiningOp<ConstructOp>();
  OpBuilder builder(enter);
  IRMapping mapping;
  mapping.map(body.getArguments(), enter.getInputs());
  for (Operation &op : body.without_terminator()) {
    if (&op == tuple.getOperation() && tuple->hasOneUse())
      continue;
    if (!isa<graph::GraphDialect>(op.getDialect()))
      return left(op, because);
    builder.clone(op, mapping);
  }
  ValueRange results = tuple && enter.getNumResults() != 1 ? ValueRange(tuple.getFields())
                                                           : ValueRange(exit->getOperands());
  for (auto [old, now] : llvm::zip_equal(enter.getResults(), results)) {
    Value value = mapping.lookupOrDefault(now);
    if (!isa<TensorType>(value.getType()))
      return left(tuple ? *tuple.getOperation() : *exit, because);
    old.replaceAllUsesWith(value);
  }
  return {};
}

} // namespace

Status inlineProgram(ModuleOp module, StringRef because) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.getOps<EnterOp>().empty())
    return {};
  evaluatePartially(module);
  EnterOp enter = *main.getOps<EnterOp>().begin();
  auto procedure = module.lookupSymbol<func::FuncOp>(enter.getProcedure());
  if (Status status = inlineBody(enter, procedure, because); !status.ok())
    return status;
  enter.erase();
  SmallVector<func::FuncOp> others(module.getOps<func::FuncOp>());
  for (func::FuncOp other : others)
    if (other != main)
      other.erase();
  main.setType(FunctionType::get(module.getContext(), main.getArgumentTypes(),
                                 main.getBody().front().getTerminator()->getOperandTypes()));
  return {};
}

} // namespace tensmith::program
