// A list of operators that give a result for all elements of their operands; see Failing.h.
#include "compiler/graph/Failing.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// Sizes are another matter: what is required of them is a check in front.
bool isTotal(Operation *op) {
  if (auto pad = dyn_cast<PadOp>(op)) // the others continue what may have no elements
    return pad.getMode() == "constant";
  return isa<Elementwise, YieldOp, ConstantOp>(op) ||
         isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp, ReverseOp, TriluOp, PackOp,
             UnpackOp, IotaOp>(op) ||
         isa<ReduceSumOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp, ArgMaxOp, ArgMinOp, CumSumOp,
             CumProdOp>(op) ||
         isa<MatMulOp, ConvOp, ConvTransposeOp, MaxPoolOp, AveragePoolOp>(op) ||
         isa<SoftmaxOp, LogSoftmaxOp, LayerNormOp, RmsNormOp, BatchNormOp, QuantizeOp,
             DequantizeOp>(op);
}

} // namespace

bool mayFail(KernelOp kernel) {
  return kernel.getBody()
      .walk([](Operation *op) {
        return isTotal(op) ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

bool mayFail(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return mayFail(kernel);
  return !isa<ConstantOp, NoneOp, KeepSizesOp, ReshapeOp>(op) &&
         !op->hasTrait<OpTrait::IsTerminator>();
}

} // namespace tensmith::graph
