// Versions of procedures, from the first on; see PartialEvaluation.h. What is done within one is in
// Unfolding.cpp.
#include "compiler/program/PartialEvaluation.h"

#include "compiler/program/DeadCode.h"
#include "compiler/program/Effects.h"
#include "compiler/program/Program.h"
#include "compiler/program/Unfolding.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

#include <deque>

using namespace mlir;

namespace tensmith::program {
namespace {

class Evaluation {
public:
  Evaluation(ModuleOp module, const PartialEvaluationBounds &bounds)
      : module_(module), sources_(module), versions_(sources_, bounds),
        unfolding_(sources_, versions_, bounds) {}

  PartialEvaluationReport run() {
    // Sizes of the program's inputs and fresh ones never get the same name.
    module_.walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        unfolding_.noteNames(type);
    });
    for (func::FuncOp procedure : sources_.all())
      for (Type type : procedure.getArgumentTypes())
        unfolding_.noteNames(type);
    module_.walk([&](EnterOp enter) { reach(enter.getProcedure()); });
    for (; !waiting_.empty(); waiting_.pop_front())
      build(*waiting_.front());
    inlineForwarders();
    markEffects(module_);
    PartialEvaluationReport report = unfolding_.report();
    for (auto procedure : module_.getOps<func::FuncOp>())
      report.versions += isProcedure(procedure) && !sources_.find(procedure.getName());
    return report;
  }

private:
  void reach(StringRef symbol) {
    Version *version = versions_.named(symbol);
    if (version && !std::exchange(version->reached, true))
      waiting_.push_back(version);
  }

  void build(Version &version) {
    OpBuilder builder(module_.getContext());
    builder.setInsertionPointToEnd(module_.getBody());
    func::FuncOp source = version.source;
    version.residual = builder.create<func::FuncOp>(source.getLoc(), version.symbol,
                                                    builder.getFunctionType({}, {}));
    version.residual->setAttr(kProcedure, builder.getUnitAttr());
    if (source->hasAttr(kWhole))
      version.residual->setAttr(kWhole, builder.getUnitAttr());
    unfolding_.build(version);
    func::FuncOp made = version.residual;
    dropDeadCode(made);
    Block &body = made.getBody().front();
    made.setType(
        builder.getFunctionType(body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
    made.walk([&](Operation *op) {
      if (auto call = dyn_cast<CallOp>(op))
        reach(call.getProcedure());
      if (auto closure = dyn_cast<ClosureOp>(op))
        reach(closure.getProcedure());
    });
  }

  /// A version that was generalised does no more than call the other one.
  void inlineForwarders() {
    SmallVector<CallOp> calls;
    module_.walk([&](CallOp call) { calls.push_back(call); });
    while (!calls.empty()) {
      CallOp call = calls.pop_back_val();
      Version *version = versions_.named(call.getProcedure());
      if (!version || !version->forwards)
        continue;
      IRMapping mapping;
      Block &body = version->residual.getBody().front();
      mapping.map(body.getArguments(), call.getInputs());
      OpBuilder builder(call);
      for (Operation &op : body.without_terminator())
        if (auto inner = dyn_cast<CallOp>(builder.clone(op, mapping))) {
          inner.getResult().setType(call.getType());
          calls.push_back(inner);
        }
      call.getResult().replaceAllUsesWith(mapping.lookup(body.getTerminator()->getOperand(0)));
      call.erase();
    }
    for (Version &version : versions_.all())
      if (version.forwards)
        version.residual.erase();
  }

  ModuleOp module_;
  Sources sources_;
  Versions versions_;
  Unfolding unfolding_;
  std::deque<Version *> waiting_;
};

} // namespace

PartialEvaluationReport evaluatePartially(ModuleOp module, const PartialEvaluationBounds &bounds) {
  return Evaluation(module, bounds).run();
}

} // namespace tensmith::program
