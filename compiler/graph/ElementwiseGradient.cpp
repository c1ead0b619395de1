// Element-wise operators: a change times the partial derivative.
//
// Partials are written over the result where that saves computing a function again. At kinks: |x|
// and clamps against a constant have the derivative 0 (so does relu), and of two equal operands of
// min and max each takes half.
#include "compiler/graph/Gradient.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace tensmith::graph {
namespace {

/// An operator of one operand: its partial from operand and result, which `scale` multiplies by.
template <auto partial>
Value unary(const GradientCode &code, Operation *op, Value change, unsigned) {
  return code.mul(change, partial(code, op->getOperand(0), op->getResult(0)));
}

using Code = const GradientCode &;
Value reciprocal(Code code, Value x) { return x ? code.div(code.scalar(x, 1), x) : x; }
Value square(Code code, Value x) { return code.mul(x, x); }
/// 1 - x^2 as a product, which keeps its accuracy next to 1.
Value oneMinusSquare(Code code, Value x) {
  return code.mul(code.sub(code.scalar(x, 1), x), code.add(x, 1));
}

Value absolute(Code code, Value x, Value) { return code.unary("graph.sign", x); }
Value exponential(Code, Value, Value y) { return y; }
Value inverseSquareRoot(Code code, Value, Value y) {
  return code.mul(code.mul(code.mul(y, y), y), -0.5);
}
Value sine(Code code, Value x, Value) { return code.unary("graph.cos", x); }
Value cosine(Code code, Value x, Value) { return code.negate(code.unary("graph.sin", x)); }
Value tangent(Code code, Value, Value y) { return code.add(square(code, y), 1); }
Value arcSine(Code code, Value x, Value) { return code.rsqrt(oneMinusSquare(code, x)); }
Value arcCosine(Code code, Value x, Value) {
  return code.negate(code.rsqrt(oneMinusSquare(code, x)));
}
Value arcTangent(Code code, Value x, Value) {
  return reciprocal(code, code.add(square(code, x), 1));
}
Value hyperbolicSine(Code code, Value x, Value) { return code.unary("graph.cosh", x); }
Value hyperbolicCosine(Code code, Value x, Value) { return code.unary("graph.sinh", x); }
Value hyperbolicTangent(Code code, Value, Value y) { return oneMinusSquare(code, y); }
Value areaSine(Code code, Value x, Value) { return code.rsqrt(code.add(square(code, x), 1)); }
Value areaCosine(Code code, Value x, Value) {
  return code.rsqrt(code.mul(code.add(x, -1), code.add(x, 1)));
}
Value areaTangent(Code code, Value x, Value) { return reciprocal(code, oneMinusSquare(code, x)); }
Value errorFunction(Code code, Value x, Value) {
  return code.mul(code.unary("graph.exp", code.negate(square(code, x))),
                  2 * std::numbers::inv_sqrtpi);
}
Value logistic(Code code, Value, Value y) { return code.mul(y, code.sub(code.scalar(y, 1), y)); }

Value negation(Code code, Operation *, Value change, unsigned) { return code.negate(change); }
Value squareRoot(Code code, Operation *op, Value change, unsigned) {
  return code.div(code.mul(change, 0.5), op->getResult(0));
}
Value logarithm(Code code, Operation *op, Value change, unsigned) {
  return code.div(change, op->getOperand(0));
}
Value logarithmOfMore(Code code, Operation *op, Value change, unsigned) {
  return code.div(change, code.add(op->getOperand(0), 1));
}
Value sum(Code, Operation *, Value change, unsigned) { return change; }
Value difference(Code code, Operation *, Value change, unsigned operand) {
  return operand == 0 ? change : code.negate(change);
}
Value product(Code code, Operation *op, Value change, unsigned operand) {
  return code.mul(change, op->getOperand(1 - operand));
}
Value quotient(Code code, Operation *op, Value change, unsigned operand) {
  Value divided = code.div(change, op->getOperand(1));
  return operand == 0 ? divided : code.negate(code.mul(divided, op->getResult(0)));
}
/// a - b * round(a / b), the rounding down, or toward zero as C has it.
Value remainder(Code code, Operation *op, Value change, unsigned operand) {
  if (operand == 0)
    return change;
  Value a = op->getOperand(0), b = op->getOperand(1);
  return code.mul(change, code.div(code.sub(op->getResult(0), a), b));
}

/// The derivative by the base has no b * a^(b - 1) to compute where b is zero, and that by the
/// exponent no logarithm where the base is not positive.
Value power(Code code, Operation *op, Value change, unsigned operand) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  if (!isDifferentiable(a.getType()))
    return {};
  Value exponent = code.cast(b, GradientCode::element(a)), zero = code.scalar(a, 0);
  if (operand == 0) {
    Value slope = code.mul(exponent, code.op("graph.pow", {a, code.add(exponent, -1)}));
    Value isConstant = code.op("graph.equal", {exponent, zero});
    return code.mul(change, code.where(isConstant, zero, slope));
  }
  Value isPositive = code.op("graph.greater", {a, zero});
  Value base = code.where(isPositive, a, code.scalar(a, 1));
  return code.mul(change, code.mul(op->getResult(0), code.unary("graph.log", base)));
}

bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<BroadcastOp, ReshapeOp, CastOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<ConstantOp>(op);
}

Value choice(Code code, Operation *op, Value change, unsigned operand, StringRef isChosen) {
  Value own = op->getOperand(operand), other = op->getOperand(1 - operand);
  Value zero = code.scalar(own, 0);
  // The result is beyond the constant where the operand is, and what follows has the result anyway.
  if (isConstant(other))
    return code.where(code.op(isChosen, {op->getResult(0), other}), change, zero);
  Value chosen = code.op(isChosen, {own, other});
  Value half = code.where(code.op("graph.equal", {own, other}), code.mul(change, 0.5), zero);
  return code.where(chosen, change, half);
}
Value smaller(Code code, Operation *op, Value change, unsigned operand) {
  return choice(code, op, change, operand, "graph.less");
}
Value larger(Code code, Operation *op, Value change, unsigned operand) {
  return choice(code, op, change, operand, "graph.greater");
}

/// Also right where the branch that is not taken is infinite.
Value selection(Code code, Operation *op, Value change, unsigned operand) {
  Value zero = code.scalar(change, 0), condition = op->getOperand(0);
  return operand == 1 ? code.where(condition, change, zero) : code.where(condition, zero, change);
}

Value conversion(const Pullback &pull, unsigned) {
  return pull.code.cast(pull.cotangent(), GradientCode::element(pull.operand(0)));
}

} // namespace

std::span<const NamedGradientRule> elementwiseGradients() {
  static const NamedGradientRule kRules[] = {
      {"abs", scaled(unary<absolute>)},
      {"neg", scaled(negation)},
      {"sign", kStep},
      {"ceil", kStep},
      {"floor", kStep},
      {"round", kStep},
      {"sqrt", scaled(squareRoot)},
      {"rsqrt", scaled(unary<inverseSquareRoot>)},
      {"exp", scaled(unary<exponential>)},
      {"log", scaled(logarithm)},
      {"log1p", scaled(logarithmOfMore)},
      {"sin", scaled(unary<sine>)},
      {"cos", scaled(unary<cosine>)},
      {"tan", scaled(unary<tangent>)},
      {"asin", scaled(unary<arcSine>)},
      {"acos", scaled(unary<arcCosine>)},
      {"atan", scaled(unary<arcTangent>)},
      {"sinh", scaled(unary<hyperbolicSine>)},
      {"cosh", scaled(unary<hyperbolicCosine>)},
      {"tanh", scaled(unary<hyperbolicTangent>)},
      {"asinh", scaled(unary<areaSine>)},
      {"acosh", scaled(unary<areaCosine>)},
      {"atanh", scaled(unary<areaTangent>)},
      {"erf", scaled(unary<errorFunction>)},
      {"sigmoid", scaled(unary<logistic>)},
      {"not", kOfIntegers},
      {"bitwise_not", kOfIntegers},
      {"isnan", kStep},
      {"isinf", kStep},
      {"cast", ofAnyRank(pulled(conversion, Linear::Jointly))},
      {"bit_cast", kNoGradient},
      {"add", scaled(sum)},
      {"sub", scaled(difference)},
      {"mul", scaled(product)},
      {"div", scaled(quotient)},
      {"mod", scaled(remainder)},
      {"pow", scaled(power)},
      {"min", scaled(smaller)},
      {"max", scaled(larger)},
      {"and", kOfIntegers},
      {"or", kOfIntegers},
      {"xor", kOfIntegers},
      {"bitwise_and", kOfIntegers},
      {"bitwise_or", kOfIntegers},
      {"bitwise_xor", kOfIntegers},
      {"bit_shift", kOfIntegers},
      {"equal", kStep},
      {"less", kStep},
      {"less_or_equal", kStep},
      {"greater", kStep},
      {"greater_or_equal", kStep},
      {"where", scaled(selection)},
  };
  return kRules;
}

} // namespace tensmith::graph
