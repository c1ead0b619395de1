// The rules by family; see Precision.h.
#include "compiler/graph/Precision.h"

#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// Larger operators (attention, recurrent layers) are decomposed into those before they are asked.
bool multiplies(Operation *op) { return isa<MatMulOp, ConvOp>(op); }

/// Whose results span many orders of magnitude, or are next to none where their operands aren't:
/// what is rounded there is told apart no longer.
bool spreads(Operation *op) {
  return isa<ExpOp, LogOp, Log1pOp, PowOp, RsqrtOp, TanOp, SinhOp, CoshOp, AcosOp, AsinOp, AcoshOp,
             AtanhOp>(op);
}

} // namespace

void keepPrecision(Operation *op) { op->setAttr(kKeepsPrecision, UnitAttr::get(op->getContext())); }

PrecisionRule precisionRule(Operation *op) {
  if (op->hasAttr(kKeepsPrecision))
    return PrecisionRule::Wide;
  if (multiplies(op))
    return PrecisionRule::Low;
  if (auto indexed = dyn_cast<Indexed>(op); indexed && indexed.isMovement())
    return PrecisionRule::Follows;
  return isa<Elementwise>(op) && !spreads(op) ? PrecisionRule::Follows : PrecisionRule::Wide;
}

} // namespace tensmith::graph
