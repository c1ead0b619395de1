// before: dequantize(quantize(x, s, z), s, z)    after: fake_quantize(x, s, z)
//
// Where x is of floats of the scale's type, codes are integers, and both have one axis and one
// block. Scales and zero points are the same values, or constants of the same contents.
#include "compiler/training/FakeQuantization.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/FakeQuantization.h"

using namespace mlir;

namespace tensmith::training {
namespace {

bool isSame(Value a, Value b) {
  if (a == b)
    return true;
  auto first = a.getDefiningOp<graph::ConstantOp>(), second = b.getDefiningOp<graph::ConstantOp>();
  bool areAbsent = graph::GraphCode::isAbsent(a) && graph::GraphCode::isAbsent(b);
  return areAbsent || (first && second && first.getValue() == second.getValue());
}

graph::QuantizeOp quantizationOf(graph::DequantizeOp op) {
  auto quantize = op.getX().getDefiningOp<graph::QuantizeOp>();
  bool fits = quantize && isSame(quantize.getScale(), op.getScale()) &&
              isSame(quantize.getZeroPoint(), op.getZeroPoint()) &&
              quantize.getAxis() == op.getAxis() && quantize.getBlockSize() == op.getBlockSize() &&
              isa<IntegerType>(quantize.getTo()) &&
              getElementTypeOrSelf(quantize.getX().getType()) == op.getTo() &&
              getElementTypeOrSelf(op.getScale().getType()) == op.getTo();
  return fits ? quantize : graph::QuantizeOp();
}

} // namespace

void fuseQuantizations(func::FuncOp function) {
  SmallVector<graph::DequantizeOp> found;
  function.walk([&](graph::DequantizeOp op) {
    if (quantizationOf(op))
      found.push_back(op);
  });
  for (graph::DequantizeOp op : found) {
    graph::QuantizeOp quantize = quantizationOf(op);
    OpBuilder builder(op);
    auto fused = builder.create<graph::FakeQuantizeOp>(
        op.getLoc(), op.getType(), quantize.getX(), quantize.getScale(), quantize.getZeroPoint(),
        quantize.getAxisAttr(), quantize.getBlockSizeAttr(), quantize.getToAttr());
    op.getResult().replaceAllUsesWith(fused.getResult());
    op.erase();
    if (quantize->use_empty())
      quantize.erase();
  }
}

bool isScale(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    return isa<graph::FakeQuantizeOp>(use.getOwner()) && use.getOperandNumber() == 1;
  });
}

} // namespace tensmith::training
