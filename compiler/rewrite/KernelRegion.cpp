// Regions of kernels; see KernelRegion.h.
#include "compiler/rewrite/KernelRegion.h"

#include "compiler/kernel/WindowElement.h"

#include <set>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Of a label, after which no more names follow.
constexpr size_t kLabelLength = 60;

/// What needs no argument: no value, or one number.
bool isCopied(Operation *op) {
  auto constant = dyn_cast_or_null<graph::ConstantOp>(op);
  bool isNumber = constant && cast<ShapedType>(constant.getType()).getNumElements() == 1;
  return isNumber || isa_and_nonnull<graph::NoneOp>(op);
}

/// The operators by name, the first few.
std::string label(ArrayRef<Operation *> ops) {
  std::string text;
  for (Operation *op : ops) {
    if (text.size() > kLabelLength)
      break;
    text += (text.empty() ? "" : "+") + op->getName().stripDialect().str();
  }
  return text;
}

/// That of all operators, the one that the kernel is built around first.
Location location(Operation *main, ArrayRef<Operation *> ops) {
  SmallVector<Location> locations{main->getLoc()};
  for (Operation *op : ops)
    locations.push_back(op->getLoc());
  return FusedLoc::get(main->getContext(), locations);
}

} // namespace

llvm::SetVector<Operation *> madeOfVectors(Value matrix, const kernel::Machine &machine) {
  constexpr size_t kMost = 32;
  auto isMatrix = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return !type || (type.getRank() > 1 && type.getShape().back() != 1 &&
                     type.getShape()[size_t(type.getRank()) - 2] != 1);
  };
  llvm::SetVector<Operation *> made;
  auto take = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!isMatrix(value))
      return true;
    if (!op || !isa<graph::Elementwise, graph::IotaOp>(op) || op->getNumResults() != 1 ||
        op->getNumRegions() || !kernel::canEmit(op, machine) || !hasKnownSizes(op))
      return false;
    made.insert(op);
    return made.size() <= kMost;
  };
  bool isMade = take(matrix);
  for (size_t next = 0; isMade && next < made.size(); ++next)
    isMade = llvm::all_of(made[next]->getOperands(), take);
  return isMade ? made : llvm::SetVector<Operation *>();
}

kernel::LaidOut laidOutRight(Operation *root, OpBuilder &builder, Location location,
                             const Options &options, const kernel::Point &asked) {
  graph::ShapeContext shapes(root->getContext());
  graph::GraphBuilder graph(builder, shapes, location);
  kernel::LaidOut right = kernel::templateBefore(root, options.machine)
                              ->layOutRight(root, graph, options.machine, asked);
  if (Value constant = foldedConstant(right.value, builder))
    right.value = constant;
  return right;
}

KernelRegion::KernelRegion(MLIRContext *context) : inside_(context) {
  body_.push_back(new Block);
  inside_.setInsertionPointToEnd(&body_.front());
}

kernel::Point KernelRegion::begin(ArrayRef<Operation *> sorted, ValueRange results, Operation *main,
                                  const Options &options) {
  if (!options.schedules)
    return {};
  key_ = kernel::keyOf(sorted, results, options.schedules->conditions());
  if (options.regionTaken)
    options.regionTaken(key_, sorted, results);
  std::set<StringRef> openSizes;
  auto add = [&](Type type) {
    if (auto ranked = dyn_cast<RankedTensorType>(type))
      for (StringAttr name : graph::symbolNames(ranked))
        openSizes.insert(name.getValue());
  };
  for (Operation *op : sorted) {
    llvm::for_each(op->getOperandTypes(), add);
    llvm::for_each(op->getResultTypes(), add);
  }
  // Operands are laid out once, for the largest sizes.
  kernel::Point asked = options.schedules->pointsOf(key_, main, openSizes.size()).back().point;
  isNest_ = asked[kernel::choice::asNest] == 1 && llvm::all_of(sorted, kernel::mayBeInNest) &&
            isTakenAsNest(sorted, results, main, options.machine);
  return asked;
}

bool KernelRegion::isTakenAsNest(ArrayRef<Operation *> sorted, ValueRange results, Operation *main,
                                 const kernel::Machine &machine) {
  KernelRegion trial(main->getContext());
  trial.isNest_ = true;
  for (Operation *op : sorted)
    trial.add(op);
  OpBuilder builder(main->getContext());
  builder.setInsertionPointAfter(sorted.back());
  graph::KernelOp kernel = trial.finish(builder, results, main, sorted, machine);
  // What takes it because of that alone is the template of nests.
  kernel->removeAttr(kernel::kNestAttribute);
  bool isNest = !kernel::matchedTemplate(kernel, machine);
  kernel->erase();
  return isNest;
}

void KernelRegion::addRight(Operation *root, const kernel::LaidOut &right) {
  Value argument = addInput(right.value);
  map_.map(root->getOperand(1), right.restored(inside_, argument));
}

void KernelRegion::add(Operation *op) {
  for (Value operand : op->getOperands()) {
    if (map_.contains(operand))
      continue;
    Operation *made = operand.getDefiningOp();
    map_.map(operand, isCopied(made) ? inside_.clone(*made)->getResult(0) : addInput(operand));
  }
  Operation *copy = inside_.clone(*op, map_);
  if (!isa<graph::Elementwise>(op))
    return;
  for (Operation &other : body_.front()) {
    if (&other == copy)
      return;
    if (!OperationEquivalence::isEquivalentTo(&other, copy, OperationEquivalence::IgnoreLocations))
      continue;
    map_.map(op->getResult(0), other.getResult(0));
    copy->erase();
    return;
  }
}

graph::KernelOp KernelRegion::finish(OpBuilder &builder, ValueRange results, Operation *main,
                                     ArrayRef<Operation *> sorted, const kernel::Machine &machine) {
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(map_.lookup(result));
  inside_.create<graph::YieldOp>(sorted.back()->getLoc(), yielded);
  auto kernel =
      builder.create<graph::KernelOp>(location(main, sorted), results.getTypes(), inputs_,
                                      label(sorted), /*kind=*/"", /*pitch=*/IntegerAttr());
  kernel.getBody().takeBody(body_);
  if (isNest_)
    kernel->setAttr(kernel::kNestAttribute, builder.getUnitAttr());
  kernel::matchTemplate(kernel, machine);
  if (!key_.empty())
    kernel->setAttr(kernel::kKeyAttribute, builder.getStringAttr(key_));
  return kernel;
}

Value KernelRegion::addInput(Value value) {
  inputs_.push_back(value);
  return body_.front().addArgument(value.getType(), value.getLoc());
}

graph::KernelOp replaceByKernel(ArrayRef<Operation *> sorted, ArrayRef<Value> results,
                                Operation *main, const Options &options) {
  OpBuilder builder(sorted.back());
  KernelRegion region(builder.getContext());
  region.begin(sorted, results, main, options);
  for (Operation *op : sorted)
    region.add(op);
  graph::KernelOp kernel = region.finish(builder, results, main, sorted, options.machine);
  for (auto [value, result] : llvm::zip_equal(results, kernel.getResults()))
    Value(value).replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(sorted))
    op->erase();
  return kernel;
}

} // namespace tensmith::rewrite
