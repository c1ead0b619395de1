// Evaluates operators whose operands are constants, unless the result would bloat the module: a
// constant broadcast to a large shape, or a large range, is cheaper made than stored.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/Rewrites.h"

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

bool isFoldable(Operation *op, int64_t allowance) {
  if (!isa_and_nonnull<graph::GraphDialect>(op->getDialect()) || op->getNumRegions() ||
      op->getNumResults() == 0 || isa<graph::ConstantOp, graph::NoneOp>(op))
    return false;
  int64_t in = 0, out = 0;
  for (Value operand : op->getOperands()) {
    if (!operand.getDefiningOp<graph::ConstantOp>() && !operand.getDefiningOp<graph::NoneOp>())
      return false;
    in += bytesOf(operand.getType());
  }
  for (Type type : op->getResultTypes()) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked || graph::dataType(ranked.getElementType()) == DataType::Undefined)
      return false;
    out += bytesOf(type);
  }
  return out <= 2 * in + allowance;
}

/// The constants that the operator's results are; empty where its evaluation fails (then it fails
/// at run time too).
SmallVector<Value> evaluated(Operation *op, OpBuilder &builder) {
  std::vector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<graph::ConstantOp>();
    auto tensor =
        constant ? graph::hostTensor(constant.getValue()) : Result<HostTensor>(HostTensor());
    if (!tensor.ok())
      return {};
    operands.push_back(*tensor);
  }
  auto results = graph::evaluate(op, operands);
  if (!results.ok() || results->size() < op->getNumResults())
    return {};
  SmallVector<Value> constants;
  for (auto [value, tensor] : llvm::zip(op->getResults(), *results)) {
    auto attribute = graph::elementsAttr(op->getContext(), tensor);
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

} // namespace

Value foldedConstant(Value value, OpBuilder &builder) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<graph::ConstantOp>(op))
    return op ? value : Value();
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return {};
  for (OpOperand &operand : op->getOpOperands()) {
    Value constant = foldedConstant(operand.get(), builder);
    if (!constant)
      return {};
    operand.set(constant);
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  SmallVector<Value> constants = evaluated(op, builder);
  return constants.empty() ? Value() : constants[0];
}

LogicalResult foldConstants(func::FuncOp function, const Options &options) {
  OpBuilder builder(function.getContext());
  graph::ShapeContext shapes(function.getContext());
  SmallVector<Operation *> dead;
  function.walk([&](Operation *op) {
    builder.setInsertionPoint(op);
    if (Value constant = constantContents(op, shapes, builder)) {
      op->getResult(0).replaceAllUsesWith(constant);
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
    dead.push_back(op);
  });
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  return success();
}

} // namespace tensmith::rewrite
