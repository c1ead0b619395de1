// The least set of procedures that lead to the constant, with a parameter in front; see Lifting.h.
#include "compiler/program/Lifting.h"

#include "compiler/program/Program.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tensmith::program {
namespace {

StringRef calleeOf(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op))
    return call.getProcedure();
  if (auto closure = dyn_cast<ClosureOp>(op))
    return closure.getProcedure();
  if (auto enter = dyn_cast<EnterOp>(op))
    return enter.getProcedure();
  return {};
}

/// The functions from which one comes to the procedure, @main included and itself not.
llvm::SetVector<func::FuncOp> leadingTo(ModuleOp module, StringRef procedure) {
  llvm::StringMap<llvm::SetVector<func::FuncOp>> callers;
  module.walk([&](Operation *op) {
    if (StringRef callee = calleeOf(op); !callee.empty())
      callers[callee].insert(op->getParentOfType<func::FuncOp>());
  });
  llvm::SetVector<func::FuncOp> found(callers[procedure]);
  for (size_t next = 0; next < found.size(); ++next) {
    func::FuncOp function = found[next];
    found.insert(callers[function.getName()].begin(), callers[function.getName()].end());
  }
  return found;
}

/// In front, where closures have what they keep; of @main behind its own, with the name.
Value addInput(func::FuncOp function, Type type, StringRef name) {
  if (isProcedure(function)) {
    function.insertArgument(0, type, {}, function.getLoc());
    return function.getArgument(0);
  }
  Builder builder(function.getContext());
  auto named = builder.getNamedAttr("graph.name", builder.getStringAttr(name));
  unsigned last = function.getNumArguments();
  function.insertArgument(last, type, builder.getDictionaryAttr(named), function.getLoc());
  return function.getArgument(last);
}

} // namespace

void liftConstant(ModuleOp module, StringRef procedure, StringRef name) {
  auto constant = module.lookupSymbol<func::FuncOp>(procedure);
  Type type = constant.getResultTypes()[0];
  llvm::DenseMap<Operation *, Value> inputs;
  llvm::StringSet<> lifted;
  for (func::FuncOp function : leadingTo(module, procedure)) {
    inputs[function] = addInput(function, type, name);
    lifted.insert(function.getName());
  }
  module.walk([&](Operation *op) {
    StringRef callee = calleeOf(op);
    Value input = inputs.lookup(op->getParentOfType<func::FuncOp>());
    if (callee == procedure) {
      op->getResult(0).replaceAllUsesWith(input);
      op->erase();
    } else if (lifted.contains(callee)) {
      op->insertOperands(0, input);
    }
  });
  constant.erase();
}

} // namespace tensmith::program
