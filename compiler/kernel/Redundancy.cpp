// Dead operations from the last to the first, then constants, then what computes the same as one
// before it; see Redundancy.h.
//
// MLIR's own elimination of common subexpressions also looks for reads between which nothing is
// written, in quadratic time where a block reads a thousand times.
#include "compiler/kernel/Redundancy.h"

#include "mlir/IR/Iterators.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/ScopedHashTable.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Users stand behind what they use, so that one way through the module from its end finds all.
void eraseDead(ModuleOp module) {
  module.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
}

/// Each constant once, where it dominates everything.
void hoistConstants(FunctionOpInterface function) {
  Block &entry = function.getFunctionBody().front();
  llvm::DenseMap<std::pair<Attribute, Type>, Operation *> known;
  Operation *last = nullptr; // of those at the beginning
  function.walk([&](Operation *op) {
    Attribute value;
    if (op->getNumResults() != 1 || !matchPattern(op, m_Constant(&value)))
      return;
    auto [it, isNew] = known.try_emplace({value, op->getResult(0).getType()}, op);
    if (!isNew) {
      op->replaceAllUsesWith(it->second);
      op->erase();
      return;
    }
    if (last)
      op->moveAfter(last);
    else
      op->moveBefore(&entry, entry.begin());
    last = op;
  });
}

struct SameOperation : llvm::DenseMapInfo<Operation *> {
  static constexpr auto kFlags = OperationEquivalence::IgnoreLocations;

  static unsigned getHashValue(const Operation *op) {
    return OperationEquivalence::computeHash(const_cast<Operation *>(op),
                                             OperationEquivalence::directHashValue,
                                             OperationEquivalence::ignoreHashValue, kFlags);
  }
  static bool isEqual(const Operation *a, const Operation *b) {
    if (a == b || a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() ||
        b == getTombstoneKey())
      return a == b;
    return OperationEquivalence::isEquivalentTo(const_cast<Operation *>(a),
                                                const_cast<Operation *>(b), kFlags);
  }
};

using Known = llvm::ScopedHashTable<Operation *, Operation *, SameOperation>;

/// Of operations without effects, those of a block that one before it computes, or one before the
/// block in a block around it.
void unify(Block &block, Known &known) {
  Known::ScopeTy scope(known);
  for (Operation &op : llvm::make_early_inc_range(block)) {
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        unify(inner, known);
    if (op.getNumRegions() || op.getNumResults() == 0 || !isMemoryEffectFree(&op))
      continue;
    if (Operation *same = known.lookup(&op)) {
      op.replaceAllUsesWith(same);
      op.erase();
    } else {
      known.insert(&op, &op);
    }
  }
}

} // namespace

void eliminateRedundancy(ModuleOp kernel) {
  eraseDead(kernel);
  for (auto function : kernel.getOps<FunctionOpInterface>()) {
    if (function.isExternal())
      continue;
    hoistConstants(function);
    Known known;
    for (Block &block : function.getFunctionBody())
      unify(block, known);
  }
}

} // namespace tensmith::kernel
