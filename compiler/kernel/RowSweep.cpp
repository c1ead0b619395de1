// Sweeps over a row in vectors; see RowSweep.h.
#include "compiler/kernel/RowSweep.h"

using namespace mlir;

namespace tensmith::kernel {

using graph::ScalarCode;

SmallVector<Value> RowSweep::runFrom(Value first, ValueRange initial, Step step) {
  Value lanes = math_.constant(lanes_);
  Value whole = math_.mul(math_.div(columns_, lanes), lanes);
  SmallVector<Value> carried =
      emitReduction(math_, first, whole, lanes, initial,
                    [&](Value column, ValueRange values) { return step(column, {}, values); });
  auto size = constantIndex(columns_);
  if (size && *size % lanes_ == 0)
    return carried;
  return emitReduction(
      math_, whole, columns_, lanes, carried,
      [&](Value column, ValueRange values) { return step(column, mask(column), values); });
}

Value RowSweep::mask(Value column) {
  return emitter_.maskBelow(math_.sub(columns_, column), lanes_);
}

Value splatReal(ElementEmitter &emitter, double value, int64_t lanes) {
  auto f32 = emitter.builder().getF32Type();
  return emitter.builder().create<arith::ConstantOp>(
      emitter.math.location,
      DenseElementsAttr::get(VectorType::get({lanes}, f32),
                             emitter.builder().getF32FloatAttr(float(value))));
}

Value keepLanes(const ScalarCode &code, Value mask, Value value, Value otherwise) {
  return mask ? code.select(mask, value, otherwise) : value;
}

Value joinLanes(ElementEmitter &emitter, vector::CombiningKind kind, Value lanes) {
  return emitter.builder().create<vector::ReductionOp>(emitter.math.location, kind, lanes,
                                                       arith::FastMathFlags::reassoc);
}

Value exponentiate(ElementEmitter &emitter, RowSweep &sweep, Value buffer, Value largest) {
  // An exponential is one long dependence, longer than the instructions that a core looks ahead: so
  // several lie side by side, as parts of one vector.
  constexpr int64_t kSideBySide = 2;
  IndexMath &math = emitter.math;
  ScalarCode code(emitter.builder(), math.location);
  Type f32 = emitter.builder().getF32Type();
  Value most = joinLanes(emitter, vector::CombiningKind::MAXIMUMF, largest);
  auto add = [&](Value sums, Value column, Value mask, int64_t lanes) {
    Value element = emitter.load(buffer, f32, column, lanes, mask);
    Value power = graph::emitExp(code, code.sub(element, emitter.splat(most, lanes)));
    emitter.store(buffer, f32, column, power, mask);
    return code.add(sums, keepLanes(code, mask, power, splatReal(emitter, 0, lanes)));
  };
  int64_t lanes = sweep.lanes(), wide = lanes * kSideBySide;
  Value step = math.constant(wide), whole = math.mul(math.div(sweep.columns(), step), step);
  Value wideSums = emitReduction(math, math.constant(0), whole, step, {splatReal(emitter, 0, wide)},
                                 [&](Value column, ValueRange carried) -> SmallVector<Value> {
                                   return {add(carried[0], column, {}, wide)};
                                 })[0];
  Value sums =
      sweep.runFrom(whole, {splatReal(emitter, 0, lanes)},
                    [&](Value column, Value mask, ValueRange carried) -> SmallVector<Value> {
                      return {add(carried[0], column, mask, lanes)};
                    })[0];
  Value sum = code.add(joinLanes(emitter, vector::CombiningKind::ADD, wideSums),
                       joinLanes(emitter, vector::CombiningKind::ADD, sums));
  return code.div(code.real(sum, 1), sum);
}

} // namespace tensmith::kernel
