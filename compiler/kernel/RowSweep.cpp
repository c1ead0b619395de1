// Sweeps over a row in vectors; see RowSweep.h.
#include "compiler/kernel/RowSweep.h"

using namespace mlir;

namespace tensmith::kernel {

using graph::ScalarCode;

namespace {

Value splatReal(ElementEmitter &emitter, double value, int64_t lanes) {
  auto f32 = emitter.builder().getF32Type();
  return emitter.builder().create<arith::ConstantOp>(
      emitter.math.location,
      DenseElementsAttr::get(VectorType::get({lanes}, f32),
                             emitter.builder().getF32FloatAttr(float(value))));
}

} // namespace

/// Steps through [begin, end) by `lanes`, carrying a vector (or nothing, where `initial` is null).
Value RowSweep::carry(Value begin, Value end, Value initial, int64_t lanes, bool masked,
                      Carry step) {
  auto carried = emitReduction(
      math_, begin, end, math_.constant(lanes), initial ? ValueRange(initial) : ValueRange(),
      [&](Value column, ValueRange values) -> SmallVector<Value> {
        Value mask = masked ? emitter_.maskBelow(math_.sub(columns_, column), lanes) : Value();
        Value next = step(values.empty() ? Value() : values[0], {column, mask, lanes});
        return next ? SmallVector<Value>{next} : SmallVector<Value>();
      });
  return carried.empty() ? Value() : carried[0];
}

void RowSweep::each(Step step) {
  auto apply = [&](Value, const Columns &columns) -> Value {
    step(columns);
    return {};
  };
  Value whole = math_.constant(0);
  for (int64_t lanes : {lanes_ * vectors_, lanes_}) {
    Value begin = whole, step = math_.constant(lanes);
    whole = math_.mul(math_.div(columns_, step), step);
    carry(begin, whole, {}, lanes, /*masked=*/false, apply);
  }
  auto size = constantIndex(columns_);
  if (!size || *size % lanes_)
    carry(whole, columns_, {}, lanes_, /*masked=*/true, apply);
}

Value RowSweep::reduce(vector::CombiningKind kind, Term term) {
  bool adds = kind == vector::CombiningKind::ADD;
  double neutral = adds ? 0 : -std::numeric_limits<float>::infinity();
  ScalarCode code(emitter_.builder(), math_.location);
  auto combine = [&](Value a, Value b) { return adds ? code.add(a, b) : code.maximum(a, b); };
  auto step = [&](Value carried, const Columns &columns) {
    Value value = term(columns);
    if (columns.mask)
      value = code.select(columns.mask, value, splatReal(emitter_, neutral, columns.lanes));
    return combine(carried, value);
  };
  auto run = [&](Value begin, Value end, int64_t lanes, bool masked) {
    Value joined = carry(begin, end, splatReal(emitter_, neutral, lanes), lanes, masked, step);
    return emitter_.builder().create<vector::ReductionOp>(math_.location, kind, joined,
                                                          arith::FastMathFlags::reassoc);
  };
  int64_t wideLanes = lanes_ * vectors_;
  Value wide = math_.constant(wideLanes), whole = math_.mul(math_.div(columns_, wide), wide);
  Value result = run(math_.constant(0), whole, wideLanes, /*masked=*/false);
  auto size = constantIndex(columns_);
  return size && *size % wideLanes == 0 ? result
                                        : combine(result, run(whole, columns_, lanes_, true));
}

Value sumExponentials(ElementEmitter &emitter, RowSweep &sweep, Value buffer, Value largest,
                      bool keep) {
  ScalarCode code(emitter.builder(), emitter.math.location);
  Type f32 = emitter.builder().getF32Type();
  return sweep.reduce(vector::CombiningKind::ADD, [&](const RowSweep::Columns &at) {
    Value element = emitter.load(buffer, f32, at.first, at.lanes, at.mask);
    Value power = graph::emitNormalExp(code, code.sub(element, emitter.splat(largest, at.lanes)));
    if (keep)
      emitter.store(buffer, f32, at.first, power, at.mask);
    return power;
  });
}

Value exponentiate(ElementEmitter &emitter, RowSweep &sweep, Value buffer, Value largest) {
  ScalarCode code(emitter.builder(), emitter.math.location);
  Value sum = sumExponentials(emitter, sweep, buffer, largest, /*keep=*/true);
  return code.div(code.real(sum, 1), sum);
}

} // namespace tensmith::kernel
