// Scalar code of the element-wise operators.
#include "compiler/graph/Graph.h"

using namespace mlir;

namespace tensmith::graph {
Value AbsOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value NegOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value SignOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value CeilOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value FloorOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value RoundOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value SqrtOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value RsqrtOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value ExpOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value LogOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value Log1pOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value SinOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value CosOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value TanOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AsinOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AcosOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AtanOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value SinhOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value CoshOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value TanhOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AsinhOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AcoshOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AtanhOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value ErfOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value SigmoidOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value NotOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value BitwiseNotOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value IsNanOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value IsInfOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value CastOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value BitCastOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AddOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value SubOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value MulOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value DivOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value ModOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value PowOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value MinOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value MaxOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value AndOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value OrOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value XorOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value BitwiseAndOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value BitwiseOrOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value BitwiseXorOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value BitShiftOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value EqualOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value LessOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value LessOrEqualOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value GreaterOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value GreaterOrEqualOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
Value WhereOp::emitScalar(OpBuilder &, Location, ValueRange) { return {}; }
} // namespace tensmith::graph
