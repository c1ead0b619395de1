// Results of a function with states that are made of the same elements become one kernel.
//
// before: m' = f(m, g); v' = f(v, g); p' = f(p, m', v'); return m', v', p'
// after:  m', v', p' = kernel(m, v, p, g) { all of these }
//
// Fusion makes kernels of one result: each of an optimiser's would read again what another one has
// read or stored. Here each element is read once, and all that is made of it is stored once.
//
// What a product or a transposition gives to one reader alone is left to it: that reader is applied
// to what is in registers.
#include "compiler/graph/Graph.h"
#include "compiler/graph/States.h"
#include "compiler/rewrite/KernelRegion.h"
#include "compiler/rewrite/Rewrites.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Of a kernel: as many streams of memory as a core follows, and as much code as a loop should
/// have. Larger groups are left to fusion.
constexpr size_t kMostResults = 8, kMostOperators = 64;

using Operations = llvm::SetVector<Operation *>;

class Updates {
public:
  Updates(Block &block, const Options &options) : block_(block), options_(options) {}

  void fuse() {
    for (Value value : block_.getTerminator()->getOperands())
      if (Operation *op = value.getDefiningOp(); op && joins(op))
        find(op);
    llvm::MapVector<Operation *, SmallVector<Operation *>> groups;
    for (auto &[result, made] : made_)
      groups[classes_.getOrInsertLeaderValue(result)].push_back(result);
    for (auto &[leader, results] : groups)
      build(results);
  }

private:
  bool joins(Operation *op) const {
    auto type = op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                                         : RankedTensorType();
    return isa<graph::Elementwise>(op) && op->getBlock() == &block_ && type &&
           type.hasStaticShape() && type.getRank() > 0 && kernel::canEmit(op, options_.machine) &&
           hasKnownSizes(op);
  }

  static bool isOfShape(Value value, RankedTensorType type) {
    auto own = dyn_cast<RankedTensorType>(value.getType());
    return own && own.getShape() == type.getShape();
  }

  /// The operators that make the result alone, element by element; and the group it belongs to.
  void find(Operation *result) {
    if (made_.contains(result))
      return;
    auto type = cast<RankedTensorType>(result->getResult(0).getType());
    Operations &made = made_[result];
    classes_.insert(result);
    note(result->getResult(0), result);
    auto isMade = [&](Operation *user) {
      return made.contains(user) || user->hasTrait<OpTrait::IsTerminator>();
    };
    // The last of them first, so that all that reads a value has been seen before it.
    auto isBefore = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
    SmallVector<Operation *> pending{result};
    while (!pending.empty() && made.size() < kMostOperators) {
      auto place = llvm::max_element(pending, isBefore);
      Operation *op = *place;
      pending.erase(place);
      if (made.contains(op) || !llvm::all_of(op->getUsers(), isMade))
        continue;
      made.insert(op);
      for (Value operand : op->getOperands()) {
        if (!isOfShape(operand, type) || operand.getDefiningOp<graph::ConstantOp>())
          continue;
        note(operand, result);
        if (Operation *before = operand.getDefiningOp(); before && joins(before))
          pending.push_back(before);
      }
    }
  }

  /// Results that read one value, or one of which the other reads, are a group.
  void note(Value value, Operation *result) {
    auto [first, isNew] = readers_.try_emplace(value, result);
    if (!isNew)
      classes_.unionSets(first->second, result);
  }

  /// Whether the operator alone reads what a product or a transposition gives.
  bool isAppliedThere(Operation *op) const {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *made = operand.getDefiningOp();
      if (!made || !operand.hasOneUse())
        return false;
      const kernel::Template *root = kernel::templateBefore(made, options_.machine);
      return (root && root->contracts) || isa<graph::TransposeOp>(made);
    });
  }

  /// The results' operators and those that are made for them alone, in order.
  SmallVector<Operation *> takenFor(ArrayRef<Operation *> results) const {
    Operations candidates(results.begin(), results.end());
    for (Operation *result : results)
      candidates.insert(made_.find(result)->second.begin(), made_.find(result)->second.end());
    SmallVector<Operation *> sorted(candidates.begin(), candidates.end()), taken;
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    llvm::SmallPtrSet<Operation *, 32> inside(results.begin(), results.end());
    for (Operation *op : llvm::reverse(sorted)) {
      bool isForThem =
          llvm::all_of(op->getUsers(), [&](Operation *user) { return inside.contains(user); });
      if (!inside.contains(op) && (!isForThem || isAppliedThere(op)))
        continue;
      inside.insert(op);
      taken.push_back(op);
    }
    std::reverse(taken.begin(), taken.end());
    return taken;
  }

  void build(SmallVector<Operation *> results) {
    llvm::erase_if(results, [&](Operation *op) { return isAppliedThere(op); });
    if (results.size() < 2 || results.size() > kMostResults)
      return;
    SmallVector<Operation *> taken = takenFor(results);
    if (taken.size() > kMostOperators)
      return;
    Operation *last = taken.back();
    SmallVector<Value> values;
    for (Operation *result : results) {
      auto isBehind = [&](Operation *user) {
        return llvm::is_contained(taken, user) ||
               last->isBeforeInBlock(block_.findAncestorOpInBlock(*user));
      };
      if (!llvm::all_of(result->getUsers(), isBehind))
        return;
      values.push_back(result->getResult(0));
    }
    replaceByKernel(taken, values, last, options_);
  }

  Block &block_;
  const Options &options_;
  llvm::MapVector<Operation *, Operations> made_; // by the result
  llvm::DenseMap<Value, Operation *> readers_;    // the first result that is made of the value
  llvm::EquivalenceClasses<Operation *> classes_; // of results
};

} // namespace

LogicalResult fuseUpdates(func::FuncOp function, const Options &options) {
  bool hasStates = llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
    return graph::nextValue(function, argument) != nullptr;
  });
  if (options.fuse && hasStates)
    Updates(function.getBody().front(), options).fuse();
  return success();
}

} // namespace tensmith::rewrite
