// Evaluates operators whose operands are constants, unless the result would bloat the module: a
// constant broadcast to a large shape, or a large range, is cheaper made than stored.
#include "base/Budget.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/NameSizes.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

int64_t bytesOf(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || !ranked.hasStaticShape())
    return 0;
  return ranked.getNumElements() *
         std::max<int64_t>(byteSize(graph::dataType(ranked.getElementType())), 1);
}

/// Numbers of places that repeat along other dimensions: kernels make them of the index, where a
/// constant would be read from memory forever. What is made of them alone is folded.
bool isTable(Operation *op) {
  auto iota = dyn_cast_or_null<graph::IotaOp>(op);
  return iota && cast<RankedTensorType>(iota.getType()).getRank() > 1;
}

/// A constant as another type: wider, it may not be worth storing, but what is made of it is (the
/// sums of weights in 8 bits, as i32).
bool isConverted(Operation *op) {
  auto cast = dyn_cast_or_null<graph::CastOp>(op);
  return cast && cast.getX().getDefiningOp<graph::ConstantOp>();
}

bool isFoldable(Operation *op, int64_t allowance) {
  if (!checkTime().ok())
    return false;
  if (!graph::isOperator(op) || op->getNumRegions() || op->getNumResults() == 0 ||
      isa<graph::ConstantOp, graph::NoneOp>(op) || isTable(op))
    return false;
  // Numbers of elements, as those that dropout draws by, would be read from memory forever.
  constexpr int64_t kLargestRange = 1 << 16;
  int64_t in = 0, out = 0;
  for (Value operand : op->getOperands()) {
    Operation *made = operand.getDefiningOp();
    if (isTable(made)) {
      auto type = cast<RankedTensorType>(operand.getType());
      if (!type.hasStaticShape() || bytesOf(type) > std::min(allowance, kLargestRange))
        return false;
      continue;
    }
    if (isConverted(made))
      operand = made->getOperand(0);
    else if (!isa_and_nonnull<graph::ConstantOp, graph::NoneOp>(made))
      return false;
    in += bytesOf(operand.getType());
  }
  for (Type type : op->getResultTypes()) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked || graph::dataType(ranked.getElementType()) == DataType::Undefined)
      return false;
    out += bytesOf(type);
  }
  return out <= 2 * in + (isa<graph::IotaOp>(op) ? std::min(allowance, kLargestRange) : allowance);
}

/// Adds the operator's results to the values that are known, of which its operands are; false where
/// its evaluation fails (then it fails at run time too).
bool evaluate(Operation *op, llvm::DenseMap<Value, HostTensor> &known) {
  if (isa<graph::NoneOp>(op))
    return known.try_emplace(op->getResult(0)).second;
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    auto tensor = graph::hostTensor(constant.getValue());
    return tensor.ok() && known.try_emplace(constant, *tensor).second;
  }
  std::vector<HostTensor> operands;
  for (Value operand : op->getOperands())
    operands.push_back(known.lookup(operand));
  auto results = graph::evaluate(op, operands);
  if (!results.ok() || results->size() < op->getNumResults())
    return false;
  for (auto [value, tensor] : llvm::zip(op->getResults(), *results))
    known[value] = tensor;
  return true;
}

/// The same, with what its operands are made of.
bool evaluateAll(Operation *op, llvm::DenseMap<Value, HostTensor> &known) {
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) {
                        return known.contains(operand) ||
                               evaluateAll(operand.getDefiningOp(), known);
                      }) &&
         evaluate(op, known);
}

/// The constants that the results of a foldable operator are; empty where its evaluation fails.
SmallVector<Value> evaluated(Operation *op, OpBuilder &builder) {
  llvm::DenseMap<Value, HostTensor> known;
  if (!evaluateAll(op, known))
    return {};
  SmallVector<Value> constants;
  for (Value value : op->getResults()) {
    auto attribute = graph::foldedAttr(op->getContext(), known.lookup(value));
    constants.push_back(
        builder.create<graph::ConstantOp>(op->getLoc(), attribute.getType(), attribute));
  }
  return constants;
}

/// The constant that a small integer result is, though its operands are none: the shape of a tensor
/// of static shape.
Value constantContents(Operation *op, graph::ShapeContext &shapes, OpBuilder &builder) {
  auto type = op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                                       : RankedTensorType();
  if (!type || !isa<graph::KnownContents>(op) || isa<graph::ConstantOp>(op))
    return {};
  auto contents = shapes.constants(op->getResult(0));
  if (!contents)
    return {};
  HostTensor tensor(graph::dataType(type.getElementType()), Shape(type.getShape()));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setInt(i, (*contents)[i]);
  auto attribute = graph::elementsAttr(op->getContext(), tensor);
  return builder.create<graph::ConstantOp>(op->getLoc(), type, attribute);
}

/// Whether the size of a result may follow from the value.
bool tellsSizes(Value value) {
  auto isOpen = [](Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    return ranked && !ranked.hasStaticShape();
  };
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<graph::ShapeFunction>(user) && llvm::any_of(user->getResultTypes(), isOpen);
  });
}

} // namespace

Value foldedConstant(Value value, OpBuilder &builder) {
  constexpr size_t kMaxOperators = 16;
  if (value.getDefiningOp<graph::ConstantOp>())
    return value;
  llvm::SetVector<Operation *> upstream;
  upstream.insert(value.getDefiningOp());
  for (size_t next = 0; next < upstream.size(); ++next) {
    Operation *op = upstream[next];
    if (!op || upstream.size() > kMaxOperators || !isPure(op) || op->getNumRegions())
      return {};
    if (isa<graph::ConstantOp, graph::NoneOp>(op))
      continue;
    for (Value operand : op->getOperands())
      upstream.insert(operand.getDefiningOp());
  }
  llvm::DenseMap<Value, HostTensor> known;
  for (Operation *op : topologicalSort(upstream))
    if (!evaluate(op, known))
      return {};
  auto attribute = graph::foldedAttr(value.getContext(), known.lookup(value));
  return builder.create<graph::ConstantOp>(value.getLoc(), attribute.getType(), attribute);
}

LogicalResult foldConstants(func::FuncOp function, const Options &options) {
  OpBuilder builder(function.getContext());
  graph::ShapeContext shapes(function.getContext());
  SmallVector<Operation *> dead;
  SmallVector<Value> learnt;
  function.walk([&](Operation *op) {
    builder.setInsertionPoint(op);
    if (Value constant = constantContents(op, shapes, builder)) {
      op->getResult(0).replaceAllUsesWith(constant);
      learnt.push_back(constant);
      dead.push_back(op);
      return;
    }
    if (!isFoldable(op, options.foldedBytes))
      return;
    builder.setInsertionPoint(op);
    SmallVector<Value> constants = evaluated(op, builder);
    // Where the type said less than the constant does (a size only now known), its users would have
    // to be inferred anew.
    bool same = !constants.empty() &&
                llvm::all_of(llvm::zip_equal(op->getResults(), constants), [](auto pair) {
                  return std::get<0>(pair).getType() == std::get<1>(pair).getType();
                });
    if (!same)
      return;
    op->replaceAllUsesWith(constants);
    llvm::append_range(learnt, constants);
    dead.push_back(op);
  });
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  if (llvm::any_of(learnt, tellsSizes))
    nameSizes(function, learnt);
  return success();
}

} // namespace tensmith::rewrite
