// Operations by operator, bytes by operand; see Work.h.
#include "compiler/kernel/Work.h"

#include "base/DataType.h"
#include "compiler/graph/Constants.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kSoftmaxOperations = 5;   // maximum, difference, exponential, sum, quotient
constexpr int64_t kLayerNormOperations = 7; // two sums, difference, square, quotient, scale, bias

class Counter {
public:
  explicit Counter(MLIRContext *context) : shapes(context) {}

  AffineExpr elements(Value value, size_t from = 0) {
    return shapes.product(ArrayRef(shapes.dims(value.getType())).drop_front(from));
  }

  AffineExpr bytes(Value value) {
    auto type = graph::dataType(getElementTypeOrSelf(value.getType()));
    return elements(value) * byteSize(type);
  }

  /// Products of a window of the weights [M, C/group, window...] for each element.
  AffineExpr multiplyAdds(Value elementsOf, Value weights) {
    return elements(elementsOf) * elements(weights, 1) * 2;
  }

  AffineExpr operations(Operation *op) {
    Value result = op->getResult(0);
    if (auto matmul = dyn_cast<graph::MatMulOp>(op))
      return elements(result) * shapes.dims(matmul.getA().getType()).back() * 2;
    if (auto conv = dyn_cast<graph::ConvOp>(op))
      return multiplyAdds(result, conv.getW());
    if (auto conv = dyn_cast<graph::ConvTransposeOp>(op))
      return multiplyAdds(conv.getX(), conv.getW());
    if (isa<graph::FourierConvOp>(op)) // of a dilated window, what lies between the taps as well
      return elements(result) * 2 *
             shapes.product(constants(op->getAttrOfType<DenseI64ArrayAttr>("window").asArrayRef()));
    if (auto kernel = op->getAttrOfType<DenseI64ArrayAttr>("kernel"))
      return elements(result) * shapes.product(constants(kernel.asArrayRef()));
    if (isa<graph::SoftmaxOp, graph::LogSoftmaxOp>(op))
      return elements(result) * kSoftmaxOperations;
    if (isa<graph::LayerNormOp>(op))
      return elements(result) * kLayerNormOperations;
    if (isa<graph::Elementwise>(op))
      return elements(result);
    auto indexed = dyn_cast<graph::Indexed>(op);
    return indexed && !indexed.isMovement() ? elements(op->getOperand(0)) : shapes.constant(0);
  }

  /// Whether the operator only gathers or slices from the operand.
  static bool isPartial(OpOperand &use) {
    return isa<graph::GatherOp, graph::GatherElementsOp, graph::GatherNDOp, graph::SliceOp>(
               use.getOwner()) &&
           use.getOperandNumber() == 0;
  }

  /// What is read of an operand: of one that is only gathered or sliced from, what is taken.
  AffineExpr bytesRead(BlockArgument argument) {
    AffineExpr taken = shapes.constant(0);
    for (OpOperand &use : argument.getUses()) {
      if (!isPartial(use))
        return bytes(argument);
      taken = taken + bytes(use.getOwner()->getResult(0));
    }
    return taken;
  }

  graph::ShapeContext shapes;

private:
  SmallVector<AffineExpr> constants(ArrayRef<int64_t> sizes) {
    return llvm::map_to_vector(sizes, [&](int64_t size) { return shapes.constant(size); });
  }
};

} // namespace

Work workOf(graph::KernelOp kernel) {
  Counter counter(kernel.getContext());
  Block &body = kernel.getBody().front();
  if (!body.getOps<graph::LoopOp>().empty())
    return {}; // nobody knows how often it runs
  Work work{counter.shapes.constant(0), counter.shapes.constant(0), {}};
  for (Operation &op : body.without_terminator())
    if (op.getNumResults() > 0)
      work.flops = work.flops + counter.operations(&op);
  for (BlockArgument argument : body.getArguments())
    work.bytes = work.bytes + counter.bytesRead(argument);
  for (Value result : kernel.getResults())
    work.bytes = work.bytes + counter.bytes(result);
  work.symbols.assign(counter.shapes.symbols().begin(), counter.shapes.symbols().end());
  return work;
}

std::optional<Work> workOfOperator(Operation *op) {
  auto isCounted = [](Type type) { return isa<NoneType, RankedTensorType>(type); };
  if (op->getNumResults() == 0 || !llvm::all_of(op->getOperandTypes(), isCounted) ||
      !llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return std::nullopt;
  Counter counter(op->getContext());
  Work work{op->getNumOperands() ? counter.operations(op) : counter.shapes.constant(0),
            counter.shapes.constant(0),
            {}};
  for (OpOperand &operand : op->getOpOperands())
    if (!isa<NoneType>(operand.get().getType()) && !Counter::isPartial(operand))
      work.bytes = work.bytes + counter.bytes(operand.get());
  for (Value result : op->getResults())
    work.bytes = work.bytes + counter.bytes(result);
  work.symbols.assign(counter.shapes.symbols().begin(), counter.shapes.symbols().end());
  return work;
}

double additionsOf(Operation *op) {
  if (isa<graph::ExpOp, graph::LogOp, graph::TanhOp, graph::SigmoidOp, graph::ErfOp>(op))
    return 12;
  if (isa<graph::AddOp, graph::SubOp, graph::MulOp, graph::MaxOp, graph::MinOp, graph::NegOp,
          graph::AbsOp, graph::CeilOp, graph::FloorOp, graph::RoundOp, graph::CastOp,
          graph::BitCastOp, graph::WhereOp, graph::EqualOp, graph::GreaterOp,
          graph::GreaterOrEqualOp, graph::LessOp, graph::LessOrEqualOp, graph::IsNanOp,
          graph::IsInfOp, graph::NotOp, graph::AndOp, graph::OrOp, graph::XorOp,
          graph::BitwiseNotOp, graph::BitwiseAndOp, graph::BitwiseOrOp, graph::BitwiseXorOp>(op))
    return 1;
  return isa<graph::DivOp, graph::SqrtOp, graph::RsqrtOp>(op) ? 4 : 30;
}

} // namespace tensmith::kernel
