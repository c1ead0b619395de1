// The least set of procedures that has those with effects and their callers; see Effects.h.
#include "compiler/program/Effects.h"

#include "compiler/program/Program.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tensmith::program {
namespace {

class Marking {
public:
  explicit Marking(ModuleOp module) : module_(module) {}

  void run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto procedure : module_.getOps<func::FuncOp>())
        if (!effectful_.contains(procedure.getName()) && acts(procedure)) {
          effectful_.insert(procedure.getName());
          changed = true;
        }
      bool before = values_;
      module_.walk([&](ClosureOp closure) { values_ |= isEffectful(closure.getProcedure()); });
      changed |= values_ != before;
    }
    module_.walk([&](Operation *op) {
      if (auto call = dyn_cast<CallOp>(op))
        call.setEffectful(isEffectful(call.getProcedure()));
      if (auto apply = dyn_cast<ApplyOp>(op))
        apply.setEffectful(values_);
    });
  }

private:
  bool isEffectful(StringRef procedure) const { return effectful_.contains(procedure); }

  bool acts(func::FuncOp procedure) {
    WalkResult result = procedure.walk([&](Operation *op) {
      auto call = dyn_cast<CallOp>(op);
      bool found = isa<ReferenceOp, ReadOp, WriteOp>(op) || (isa<ApplyOp>(op) && values_) ||
                   (call && isEffectful(call.getProcedure()));
      return found ? WalkResult::interrupt() : WalkResult::advance();
    });
    return result.wasInterrupted();
  }

  ModuleOp module_;
  llvm::StringSet<> effectful_;
  bool values_ = false; // a function that is a value has effects
};

} // namespace

void markEffects(ModuleOp module) { Marking(module).run(); }

bool hasEffects(Operation *op) {
  WalkResult result = op->walk([](Operation *inner) {
    auto call = dyn_cast<CallOp>(inner);
    auto apply = dyn_cast<ApplyOp>(inner);
    bool found = isa<ReferenceOp, ReadOp, WriteOp>(inner) || (call && call.getEffectful()) ||
                 (apply && apply.getEffectful());
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

} // namespace tensmith::program
