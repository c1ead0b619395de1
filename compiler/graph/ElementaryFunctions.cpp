// See ElementaryFunctions.h. Every function is written in the order: reduce the argument, evaluate
// a polynomial, put the reduction back, then the special values that fell out wrong.
#include "compiler/graph/ElementaryFunctions.h"

#include <cmath>
#include <iterator>
#include <limits>

using namespace mlir;

namespace tensmith::graph {

namespace {
using FloatIs = arith::CmpFPredicate;
using IntIs = arith::CmpIPredicate;

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.69314718055994530942;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Adding 1.5 * 2^23 to a float below 2^22 rounds it to an integer, which its low bits then hold.
constexpr double kRoundF32 = 12582912.0;
constexpr double kRoundF64 = 6755399441055744.0; // 1.5 * 2^52

/// 2^n for an integer n in [-126, 127].
Value powerOfTwo(const ScalarCode &code, Value n) {
  return code.reinterpret(code.shiftLeft(code.add(n, code.integer(n, 127)), 23), code.f32());
}

/// mantissa * 2^n in two steps, so that neither factor overflows and a subnormal is rounded once.
Value scale(const ScalarCode &code, Value mantissa, Value n) {
  Value half = code.shiftRight(n, 1);
  Value partly = code.mul(mantissa, powerOfTwo(code, half));
  return code.mul(partly, powerOfTwo(code, code.sub(n, half)));
}

/// Truth of "y is an integer" and "y is an odd integer".
std::pair<Value, Value> integrality(const ScalarCode &code, Value y) {
  Value whole = code.equal(code.make<math::FloorOp>(y), y);
  Value half = code.mul(y, code.real(y, 0.5));
  Value isEven = code.equal(code.make<math::FloorOp>(half), half);
  return {whole, code.bitAnd(whole, code.bitXor(isEven, code.boolean(y, true)))};
}

struct Quadrant {
  Value remainder; // f32, |r| <= pi/4
  Value number;    // i64, the multiple of pi/2 that was taken off (its low bits)
};

/// x minus the nearest multiple of pi/2, whatever the size of x.
///
/// x / (2 pi) less whole turns is a sum of parts, each less its own whole turns: 1 / (2 pi) in
/// seven numbers of 29 bits, whose products with the 24 of x are exact in f64, as is what is left
/// of them. They reach to 2^-206, as far as turns of 2^128 ask for. (Payne and Hanek, "Radian
/// reduction for trigonometric functions", 1983, take the bits that count by the exponent; here all
/// are taken, without a table.)
Quadrant reduceToQuadrant(const ScalarCode &code, Value x) {
  constexpr double kTurns[] = {
      0x1.45f306d000000p-3,   0x1.9391054000000p-32,  0x1.4fe13ab000000p-61, 0x1.d1f534d000000p-90,
      0x1.b81b6c5000000p-119, 0x1.5993c43000000p-150, 0x1.2083fca000000p-179};
  constexpr size_t kWithTurns = 5; // the products of the others are less than one
  Value wide = code.toFloat(x, code.f64()), turns;
  for (size_t i = std::size(kTurns); i-- > 0;) { // the least first
    Value part = code.mul(wide, code.real(wide, kTurns[i]));
    if (i < kWithTurns)
      part = code.sub(part, code.make<math::RoundEvenOp>(part));
    turns = turns ? code.add(turns, part) : part;
  }
  Value shifted = code.add(code.mul(turns, code.real(wide, 4)), code.real(wide, kRoundF64));
  Value quarters = code.sub(shifted, code.real(wide, kRoundF64));
  Value r = code.sub(turns, code.mul(quarters, code.real(wide, 0.25)));
  r = code.mul(r, code.real(wide, 2 * kPi));
  return {code.clamp(code.toFloat(r, code.f32()), -0.7853983, 0.7853983), code.bits(shifted)};
}

Value sineOfRemainder(const ScalarCode &code, Value r) {
  Value z = code.mul(r, r);
  Value p = code.polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  return code.multiplyAdd(code.mul(p, z), r, r);
}

Value cosineOfRemainder(const ScalarCode &code, Value r) {
  Value z = code.mul(r, r);
  Value p = code.polynomial(
      z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1.0});
  return p;
}

/// Whether bit `bit` of the quadrant's number is set.
Value quadrantBit(const ScalarCode &code, const Quadrant &quadrant, int64_t bit) {
  Value n = quadrant.number;
  return code.compare(IntIs::ne, code.bitAnd(n, code.integer(n, bit)), code.integer(n, 0));
}

/// sin(x + turns * pi/2).
Value sineOfQuadrant(const ScalarCode &code, Value x, int64_t turns) {
  Quadrant quadrant = reduceToQuadrant(code, x);
  quadrant.number = code.add(quadrant.number, code.integer(quadrant.number, turns));
  Value value =
      code.select(quadrantBit(code, quadrant, 1), cosineOfRemainder(code, quadrant.remainder),
                  sineOfRemainder(code, quadrant.remainder));
  return code.select(quadrantBit(code, quadrant, 2), code.neg(value), value);
}

/// asin(x) = x + x * z * P(z) for z = x^2 up to 1/4.
Value arcSineSeries(const ScalarCode &code, Value x, Value z) {
  Value p = code.polynomial(
      z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1});
  return code.multiplyAdd(code.mul(p, z), x, x);
}

struct HalfAngle {
  Value isLarge; // |x| > 1/2
  Value series;  // asin(|x|), or asin(sqrt((1 - |x|) / 2)) where large
};

HalfAngle arcSineOfMagnitude(const ScalarCode &code, Value magnitude) {
  Value isLarge = code.greater(magnitude, code.real(magnitude, 0.5));
  Value half = code.mul(code.sub(code.real(magnitude, 1), magnitude), code.real(magnitude, 0.5));
  Value z = code.select(isLarge, half, code.mul(magnitude, magnitude));
  Value root = code.select(isLarge, code.sqrt(half), magnitude);
  return {isLarge, arcSineSeries(code, root, z)};
}

/// log2(m * 2^e) in f64, to about 2^-44: for powers, whose exponent magnifies its error.
Value log2InDouble(const ScalarCode &code, Value positive) {
  Value wide = code.toFloat(positive, code.f64()); // f32's subnormals become normal
  Value raw = code.bits(wide);
  Value offset = code.integer(raw, 0x3fe6a09e667f3bcdLL); // sqrt(1/2)
  Value difference = code.sub(raw, offset);
  Value exponent = code.shiftRight(difference, 52);
  Value fraction = code.bitAnd(difference, code.integer(raw, 0xfffffffffffffLL));
  Value m = code.reinterpret(code.add(fraction, offset), code.f64());
  Value one = code.real(m, 1);
  Value s = code.div(code.sub(m, one), code.add(m, one));
  Value z = code.mul(s, s);
  // 2 atanh(s) / ln 2
  SmallVector<double> series;
  for (int k = 7; k >= 0; --k)
    series.push_back(2 / kLn2 / (2 * k + 1));
  // The exponent is small, so an i32 holds it, and that converts in one instruction.
  Value e = code.make<arith::SIToFPOp>(m.getType(), code.resize(exponent, 32, false));
  return code.multiplyAdd(s, code.polynomial(z, series), e);
}

/// 1 + (r + r^2 p), the small part first: so one is rounded that is near 1, and not two.
Value onePlus(const ScalarCode &code, Value r, Value p) {
  return code.add(code.multiplyAdd(code.mul(r, r), p, r), code.real(r, 1));
}

/// 2^t of an f64 t, in f32.
Value exp2OfDouble(const ScalarCode &code, Value t) {
  t = code.clamp(t, -160, 160);
  Value n = code.sub(code.add(t, code.real(t, kRoundF64)), code.real(t, kRoundF64));
  Value r = code.toFloat(code.mul(code.sub(t, n), code.real(t, kLn2)), code.f32());
  Value p = code.polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                                1.6666665459e-1, 5.0000001201e-1});
  p = onePlus(code, r, p);
  Value integer = code.bits(code.add(t, code.real(t, kRoundF64)));
  integer = code.resize(integer, 32, false);
  // NaN has no integer: any scale will do, since p is NaN as well.
  return scale(code, p, integer);
}

/// e^x = mantissa * 2^n, where n is in the low bits of `shifted` as they are.
struct Reduced {
  Value mantissa, shifted;
};
constexpr int64_t kShiftedZero = 0x4b400000; // the bits of kRoundF32

Reduced reduceExp(const ScalarCode &code, Value x) {
  Value shifted = code.multiplyAdd(x, code.real(x, 1 / kLn2), code.real(x, kRoundF32));
  Value n = code.sub(shifted, code.real(x, kRoundF32));
  Value r = code.multiplyAdd(n, code.real(x, -0.693359375), x);
  r = code.multiplyAdd(n, code.real(x, 2.12194440e-4), r);
  Value p = code.polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                                1.6666665459e-1, 5.0000001201e-1});
  return {onePlus(code, r, p), code.bits(shifted)};
}
} // namespace

Value emitExp(const ScalarCode &code, Value x, int64_t exponent) {
  // Beyond these e^x is 0 or infinite whatever the scale.
  x = code.clamp(x, -104.0 - double(exponent) * kLn2, 89.0 - double(exponent) * kLn2);
  auto [mantissa, shifted] = reduceExp(code, x);
  return scale(code, mantissa, code.sub(shifted, code.integer(shifted, kShiftedZero - exponent)));
}

Value emitNormalExp(const ScalarCode &code, Value x) {
  // n = -127 and n = 128 are the exponents of 0 and of infinity.
  auto [mantissa, shifted] = reduceExp(code, code.clamp(x, -127 * kLn2, 128 * kLn2));
  Value power = code.shiftLeft(code.add(shifted, code.integer(shifted, 127)), 23);
  return code.mul(mantissa, code.reinterpret(power, code.f32()));
}

Value emitLog(const ScalarCode &code, Value x) {
  Value isTiny = code.less(x, code.real(x, std::numeric_limits<float>::min()));
  Value normal = code.select(isTiny, code.mul(x, code.real(x, 8388608.0)), x);
  Value raw = code.bits(normal);
  Value offset = code.integer(raw, 0x3f3504f3); // sqrt(1/2): the mantissa lands around 1
  Value difference = code.sub(raw, offset);
  Value exponent = code.shiftRight(difference, 23);
  exponent = code.sub(exponent, code.select(isTiny, code.integer(raw, 23), code.integer(raw, 0)));
  Value fraction = code.bitAnd(difference, code.integer(raw, 0x7fffff));
  Value z = code.reinterpret(code.add(fraction, offset), code.f32());
  z = code.sub(z, code.real(z, 1));
  Value e = code.make<arith::SIToFPOp>(z.getType(), exponent);

  Value square = code.mul(z, z);
  Value p = code.polynomial(z, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
                                -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                                2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  Value y = code.mul(code.mul(p, z), square);
  y = code.multiplyAdd(e, code.real(e, -2.12194440e-4), y);
  y = code.multiplyAdd(square, code.real(square, -0.5), y);
  y = code.multiplyAdd(e, code.real(e, 0.693359375), code.add(z, y));

  // Infinity and NaN are themselves; zero is -infinity; what is below has no logarithm.
  y = code.select(code.less(x, code.real(x, kInfinity)), y, x);
  y = code.select(code.equal(x, code.real(x, 0)), code.real(x, -kInfinity), y);
  return code.select(code.less(x, code.real(x, 0)), code.real(x, kNan), y);
}

Value emitLog1p(const ScalarCode &code, Value x) {
  // u = 1 + x loses some of x; what it lost, divided by u, is the first-order correction.
  Value one = code.real(x, 1), zero = code.real(x, 0);
  Value u = code.add(x, one);
  Value lost = code.sub(x, code.sub(u, one));
  Value correction = code.div(lost, u);
  correction = code.select(code.compare(FloatIs::ONE, correction, zero), correction, zero);
  Value result = code.add(emitLog(code, u), correction);
  return code.select(code.equal(u, one), x, result);
}

Value emitSigmoid(const ScalarCode &code, Value x) {
  Value one = code.real(x, 1);
  return code.div(one, code.add(one, emitNormalExp(code, code.neg(x))));
}

namespace {
/// x * P(x^2) / Q(x^2), coefficients from the highest, within [-1, 1].
Value oddRational(const ScalarCode &code, Value x, double limit, ArrayRef<double> numerator,
                  ArrayRef<double> denominator) {
  Value clamped = code.clamp(x, -limit, limit);
  Value square = code.mul(clamped, clamped);
  Value p = code.mul(clamped, code.polynomial(square, numerator));
  return code.clamp(code.div(p, code.polynomial(square, denominator)), -1, 1);
}
} // namespace

// Both rationals were fitted to the relative error by reweighted linear least squares (Lawson's
// algorithm on the linearised problem) at 3000 Chebyshev points.
Value emitTanh(const ScalarCode &code, Value x) {
  return oddRational(code, x, 9.02,
                     {-8.4360726500e-14, 5.2577898098e-11, -2.0183990858e-08, 1.1144261803e-05,
                      3.1030019086e-03, 1.3083157385e-01, 9.9999999323e-01},
                     {2.5447519878e-04, 2.4491383286e-02, 4.6416484348e-01, 1.0});
}

Value emitErf(const ScalarCode &code, Value x) {
  return oddRational(code, x, 3.93,
                     {1.9815273909e-08, -1.9553650776e-06, 1.4249169452e-04, 3.7367023824e-03,
                      5.0688951903e-02, 2.0080434142e-01, 1.1283791073e+00},
                     {9.6388638183e-04, 1.4426749470e-02, 1.1536100482e-01, 5.1128982260e-01, 1.0});
}

Value emitSin(const ScalarCode &code, Value x) {
  // -0 and subnormals pass through the reduction as 0.
  Value isTiny = code.less(code.abs(x), code.real(x, 1e-4));
  return code.select(isTiny, x, sineOfQuadrant(code, x, 0));
}
Value emitCos(const ScalarCode &code, Value x) { return sineOfQuadrant(code, x, 1); }

Value emitTan(const ScalarCode &code, Value x) {
  Quadrant quadrant = reduceToQuadrant(code, x);
  Value sine = sineOfRemainder(code, quadrant.remainder);
  Value cosine = cosineOfRemainder(code, quadrant.remainder);
  Value isOdd = quadrantBit(code, quadrant, 1);
  Value quotient =
      code.div(code.select(isOdd, code.neg(cosine), sine), code.select(isOdd, sine, cosine));
  return code.select(code.less(code.abs(x), code.real(x, 1e-4)), x, quotient);
}

Value emitAsin(const ScalarCode &code, Value x) {
  HalfAngle angle = arcSineOfMagnitude(code, code.abs(x));
  Value large = code.multiplyAdd(angle.series, code.real(x, -2), code.real(x, kPi / 2));
  return code.copySign(code.select(angle.isLarge, large, angle.series), x);
}

Value emitAcos(const ScalarCode &code, Value x) {
  HalfAngle angle = arcSineOfMagnitude(code, code.abs(x));
  Value isNegative = code.less(x, code.real(x, 0));
  Value twice = code.add(angle.series, angle.series);
  Value large = code.select(isNegative, code.sub(code.real(x, kPi), twice), twice);
  Value small = code.sub(code.real(x, kPi / 2), code.copySign(angle.series, x));
  return code.select(angle.isLarge, large, small);
}

Value emitAtan(const ScalarCode &code, Value x) {
  Value one = code.real(x, 1), magnitude = code.abs(x);
  Value isLarge = code.greater(magnitude, code.real(x, 2.414213562373095));
  Value isMiddle = code.greater(magnitude, code.real(x, 0.4142135623730950));
  // atan(a) = pi/2 - atan(1/a) = pi/4 + atan((a - 1) / (a + 1)); one division serves both.
  Value top = code.select(isLarge, code.real(x, -1),
                          code.select(isMiddle, code.sub(magnitude, one), magnitude));
  Value bottom =
      code.select(isLarge, magnitude, code.select(isMiddle, code.add(magnitude, one), one));
  Value offset = code.select(isLarge, code.real(x, kPi / 2),
                             code.select(isMiddle, code.real(x, kPi / 4), code.real(x, 0)));
  Value r = code.div(top, bottom);
  Value z = code.mul(r, r);
  Value p = code.polynomial(
      z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1});
  r = code.multiplyAdd(code.mul(p, z), r, r);
  return code.copySign(code.add(offset, r), x);
}

Value emitSinh(const ScalarCode &code, Value x) {
  Value magnitude = code.abs(x);
  Value halfExp = emitExp(code, magnitude, -1);
  Value large = code.sub(halfExp, code.div(code.real(x, 0.25), halfExp));
  Value z = code.mul(x, x);
  Value p = code.polynomial(z, {2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1});
  Value small = code.multiplyAdd(code.mul(p, z), x, x);
  return code.select(code.less(magnitude, code.real(x, 1)), small, code.copySign(large, x));
}

Value emitCosh(const ScalarCode &code, Value x) {
  Value halfExp = emitExp(code, code.abs(x), -1);
  return code.add(halfExp, code.div(code.real(x, 0.25), halfExp));
}

Value emitAsinh(const ScalarCode &code, Value x) {
  Value a = code.abs(x), one = code.real(x, 1);
  Value square = code.mul(a, a);
  Value root = code.sqrt(code.add(square, one));
  // a + a^2 / (1 + sqrt(a^2 + 1)) = e^asinh(a) - 1 without cancellation.
  Value minusOne = code.add(a, code.div(square, code.add(one, root)));
  Value isHuge = code.greater(a, code.real(x, 1e9)); // the square may overflow; 1 is below an ulp
  Value log = emitLog1p(code, code.select(isHuge, a, minusOne));
  Value huge = code.add(log, code.real(x, kLn2));
  return code.copySign(code.select(isHuge, huge, log), x);
}

Value emitAcosh(const ScalarCode &code, Value x) {
  Value t = code.sub(x, code.real(x, 1));
  Value root = code.sqrt(code.mul(t, code.add(t, code.real(x, 2))));
  Value isHuge = code.greater(x, code.real(x, 1e9));
  Value log = emitLog1p(code, code.select(isHuge, x, code.add(t, root)));
  Value result = code.select(isHuge, code.add(log, code.real(x, kLn2)), log);
  return code.select(code.less(t, code.real(x, 0)), code.real(x, kNan), result);
}

Value emitAtanh(const ScalarCode &code, Value x) {
  Value a = code.abs(x);
  Value ratio = code.div(code.add(a, a), code.sub(code.real(x, 1), a));
  Value result = code.mul(emitLog1p(code, ratio), code.real(x, 0.5));
  return code.copySign(result, x);
}

Value emitPow(const ScalarCode &code, Value a, Value b) {
  Value zero = code.real(a, 0), one = code.real(a, 1), infinity = code.real(a, kInfinity);
  Value magnitude = code.abs(a);
  auto [isWhole, isOdd] = integrality(code, b);
  Value wideB = code.toFloat(b, code.f64());
  Value result = exp2OfDouble(code, code.mul(wideB, log2InDouble(code, magnitude)));

  // 0 and infinity to a power are each other or themselves; their logarithm above meant nothing.
  Value isPositive = code.greater(b, zero);
  result =
      code.select(code.equal(magnitude, zero), code.select(isPositive, zero, infinity), result);
  result =
      code.select(code.equal(magnitude, infinity), code.select(isPositive, infinity, zero), result);
  Value isNegative = code.less(a, zero);
  Value undefined = code.bitAnd(code.bitAnd(isNegative, code.less(magnitude, infinity)),
                                code.bitXor(isWhole, code.boolean(a, true)));
  result = code.select(undefined, code.real(a, kNan), result);
  result = code.select(isOdd, code.copySign(result, a), result);
  result = code.select(code.compare(FloatIs::UNO, a, b), code.real(a, kNan), result);
  Value isOne = code.equal(a, one);
  Value minusOneToInfinity =
      code.bitAnd(code.equal(magnitude, one), code.equal(code.abs(b), infinity));
  isOne = code.bitOr(code.bitOr(isOne, minusOneToInfinity), code.equal(b, zero));
  return code.select(isOne, one, result);
}

} // namespace tensmith::graph
