// Operations as records say, bytes by operand; see Work.h.
#include "compiler/kernel/Work.h"

#include "base/DataType.h"
#include "compiler/graph/Constants.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

class Counter {
public:
  explicit Counter(MLIRContext *context) : shapes(context) {}

  AffineExpr bytes(Value value) {
    auto type = graph::dataType(getElementTypeOrSelf(value.getType()));
    return graph::elements(shapes, value) * byteSize(type);
  }

  AffineExpr operations(Operation *op) {
    auto cost = dyn_cast<graph::Cost>(op);
    return cost ? cost.operations(shapes) : shapes.constant(0);
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
  Work work{counter.operations(op), counter.shapes.constant(0), {}};
  for (OpOperand &operand : op->getOpOperands())
    if (!isa<NoneType>(operand.get().getType()) && !Counter::isPartial(operand))
      work.bytes = work.bytes + counter.bytes(operand.get());
  for (Value result : op->getResults())
    work.bytes = work.bytes + counter.bytes(result);
  work.symbols.assign(counter.shapes.symbols().begin(), counter.shapes.symbols().end());
  return work;
}

} // namespace tensmith::kernel
