// A row operator whose result is only an intermediate becomes one kernel with all that is made of
// its rows.
//
// before: l = log_softmax(x); p = gather_elements(l, t); g = c - s * exp(l); b = arg_max(x)
// after:  g, p, b = kernel(x, t, c, s) { all of these }
//
// Fusion makes kernels of one result, for which l would have to be in memory, and be read by each
// of its readers. Here a row is: the operator's result is never stored. What joins is element-wise
// at the rows' own shape, or gives one element for each row (a sum over it, the element at an
// index), or is element-wise on those; and it reads other rows of nothing that is made inside.
//
// What stands between those that join and depends on them moves behind the kernel.
#include "compiler/graph/Graph.h"
#include "compiler/kernel/RowShape.h"
#include "compiler/rewrite/KernelRegion.h"

#include "compiler/kernel/Kernel.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr size_t kMostOperators = 64;

/// A row operator with what joins it.
class RowGroup {
public:
  RowGroup(Operation *root, const Options &options)
      : options_(options), root_(root),
        type_(cast<RankedTensorType>(root->getResult(0).getType())) {
    inside_.insert(root);
  }

  /// Takes in what can be; whether the root's result needn't be stored then, and that is worth a
  /// kernel of several results.
  bool grow() {
    if (type_.getRank() < 1 || type_.getShape().back() == 1)
      return false;
    for (Operation *op = root_->getNextNode(); op && inside_.size() < kMostOperators;
         op = op->getNextNode())
      if (!op->hasTrait<OpTrait::IsTerminator>())
        place(op);
    if (!llvm::all_of(root_->getUsers(), [&](Operation *user) { return isInside(user); }))
      return false;
    findResults();
    takeProducers();
    return results_.size() > 1 ||
           (results_.size() == 1 && shapeOf(results_.front()) != Shape::Whole);
  }

  void build() {
    SmallVector<Operation *> sorted(inside_.begin(), inside_.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    graph::KernelOp kernel = replaceByKernel(sorted, results_, root_, options_);
    Operation *end = kernel;
    for (Operation *op : behind_)
      if (op->isBeforeInBlock(kernel)) {
        op->moveAfter(end);
        end = op;
      }
  }

private:
  using Shape = kernel::RowShape;

  bool isInside(Operation *op) const { return op && inside_.contains(op); }
  std::optional<Shape> shapeOf(Value value) const {
    return kernel::rowShapeOf(dyn_cast<RankedTensorType>(value.getType()), type_);
  }

  /// The operator joins, or it needs what does and stands behind the kernel, or it is none of ours.
  void place(Operation *op) {
    llvm::SetVector<Value> read(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), read);
    bool isBehind = llvm::any_of(read, [&](Value value) {
      return value.getDefiningOp() && isBehind_.contains(value.getDefiningOp());
    });
    bool reads = llvm::any_of(read, [&](Value value) { return isInside(value.getDefiningOp()); });
    if (!isBehind && joins(op, reads)) {
      inside_.insert(op);
    } else if (isBehind || reads) {
      isBehind_.insert(op);
      behind_.push_back(op);
    }
  }

  bool joins(Operation *op, bool reads) const {
    if (op->getNumRegions() || op->getNumResults() != 1 || !kernel::canEmit(op, options_.machine) ||
        !hasKnownSizes(op) || !shapeOf(op->getResult(0)))
      return false;
    if (isa<graph::Elementwise>(op))
      return reads && readsOwnRows(op);
    return gathersFromRow(op) || reducesRow(op);
  }

  /// Of what is made inside, an element-wise operator reads what has its own shape, or one element
  /// for each of its rows.
  bool readsOwnRows(Operation *op) const {
    Shape own = *shapeOf(op->getResult(0));
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      if (!isInside(operand.getDefiningOp()))
        return true;
      auto shape = shapeOf(operand);
      return shape == own || (own == Shape::Whole && shape == Shape::Kept);
    });
  }

  /// The rows themselves: the root's result, what has become of it, or its operand.
  bool isRows(Value value) const {
    return shapeOf(value) == Shape::Whole &&
           (isInside(value.getDefiningOp()) || value == root_->getOperand(0));
  }

  bool gathersFromRow(Operation *op) const {
    auto gather = dyn_cast<graph::GatherElementsOp>(op);
    return gather && isRows(gather.getX()) && int64_t(gather.getAxis()) == type_.getRank() - 1 &&
           shapeOf(gather.getIndices()) == Shape::Kept;
  }

  bool reducesRow(Operation *op) const {
    if (op->getNumOperands() == 0 ||
        !(isRows(op->getOperand(0)) || (isMadeOfLess(op->getOperand(0)) && isReadWithRows(op))))
      return false;
    if (isa<graph::ArgMaxOp, graph::ArgMinOp>(op))
      return op->getAttrOfType<IntegerAttr>("axis").getInt() == type_.getRank() - 1;
    auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
    return isa<graph::ReduceSumOp, graph::ReduceMaxOp, graph::ReduceMinOp, graph::ReduceProdOp>(
               op) &&
           axes && axes.asArrayRef() == ArrayRef<int64_t>(type_.getRank() - 1);
  }

  /// Rows that are computed from less, as the weights of a row's classes by its label.
  bool isMadeOfLess(Value value) const {
    llvm::SetVector<Operation *> chain;
    auto take = [&](Value rows) {
      return shapeOf(rows) != Shape::Whole ||
             (rows.getDefiningOp() && isMadeInPassing(rows.getDefiningOp()) &&
              (chain.insert(rows.getDefiningOp()), chain.size() <= kMostOperators));
    };
    if (shapeOf(value) != Shape::Whole || !take(value))
      return false;
    for (size_t next = 0; next < chain.size(); ++next)
      if (!llvm::all_of(chain[next]->getOperands(), take))
        return false;
    return true;
  }
  /// Whether what reads the result also reads what is made of the rows, which may not have joined
  /// yet.
  bool isReadWithRows(Operation *op) const {
    return llvm::any_of(op->getUsers(), [&](Operation *user) { return isMadeOfRows(user, 3); });
  }
  bool isMadeOfRows(Operation *op, int steps) const {
    return isInside(op) || (steps > 0 && isa_and_nonnull<graph::Elementwise>(op) &&
                            llvm::any_of(op->getOperands(), [&](Value operand) {
                              return isMadeOfRows(operand.getDefiningOp(), steps - 1);
                            }));
  }

  /// What is read outside, whole rows first: one of them may be written over the operand.
  void findResults() {
    for (bool whole : {true, false})
      for (Operation *op : inside_)
        if ((shapeOf(op->getResult(0)) == Shape::Whole) == whole &&
            llvm::any_of(op->getUsers(), [&](Operation *user) { return !isInside(user); }))
          results_.push_back(op->getResult(0));
  }

  /// What is made for those inside alone, of less than rows (a comparison of the columns' numbers
  /// with a label), is made where it is read.
  void takeProducers() {
    for (size_t next = 0; next < inside_.size() && inside_.size() < kMostOperators; ++next)
      for (Value operand : inside_[next]->getOperands())
        if (auto chain = chainTo(operand.getDefiningOp()))
          inside_.insert(chain->begin(), chain->end());
  }

  /// The operators that make rows out of less, down to that; none where one of them has other
  /// readers, or has to read rows from memory.
  std::optional<llvm::SetVector<Operation *>> chainTo(Operation *end) const {
    llvm::SetVector<Operation *> chain;
    if (!end || isInside(end))
      return std::nullopt;
    chain.insert(end);
    for (size_t next = 0; next < chain.size(); ++next) {
      auto isTaken = [&](Operation *user) { return isInside(user) || chain.contains(user); };
      if (!isMadeInPassing(chain[next]) || !llvm::all_of(chain[next]->getUsers(), isTaken) ||
          chain.size() > kMostOperators)
        return std::nullopt;
      for (Value operand : chain[next]->getOperands()) {
        if (shapeOf(operand) != Shape::Whole)
          continue;
        if (!operand.getDefiningOp() || isInside(operand.getDefiningOp()))
          return std::nullopt;
        chain.insert(operand.getDefiningOp());
      }
    }
    return chain;
  }

  bool isMadeInPassing(Operation *op) const {
    return isa<graph::Elementwise, graph::IotaOp, graph::BroadcastOp>(op) &&
           op->getBlock() == root_->getBlock() && op->getNumResults() == 1 &&
           kernel::canEmit(op, options_.machine) && hasKnownSizes(op);
  }

  const Options &options_;
  Operation *root_;
  RankedTensorType type_;
  llvm::SetVector<Operation *> inside_;
  SmallVector<Value> results_;
  SmallVector<Operation *> behind_;
  llvm::SmallPtrSet<Operation *, 16> isBehind_;
};

} // namespace

LogicalResult fuseRows(func::FuncOp function, const Options &options) {
  if (!options.fuse)
    return success();
  SmallVector<Operation *> roots;
  function.walk([&](Operation *op) {
    const kernel::Template *root = kernel::templateBefore(op, options.machine);
    if (root && root->sweepsRows && op->getNumResults() == 1 &&
        kernel::canEmit(op, options.machine) && hasKnownSizes(op) &&
        !op->getParentOfType<graph::KernelOp>())
      roots.push_back(op);
  });
  for (Operation *root : roots)
    if (RowGroup group(root, options); group.grow())
      group.build();
  return success();
}

} // namespace tensmith::rewrite
