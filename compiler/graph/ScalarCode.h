// Writes arithmetic that is valid for scalars and for vectors alike.
//
// The element-wise operators are applied to single elements in scalar loops and to whole register
// tiles in epilogues, by the same emitters: so every constant takes its type from an operand, and
// every operation is chosen by the element type. Constant operands fold as the code is written.
//
// Multiply-adds carry the `contract` flag instead of being `math.fma`: they fuse where the machine
// can, and never become a call of fmaf where it can't.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

namespace tensmith::graph {

class ScalarCode {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  ScalarCode(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  static Type element(Value value) { return mlir::getElementTypeOrSelf(value.getType()); }
  static bool isFloat(Value value) { return mlir::isa<mlir::FloatType>(element(value)); }
  static unsigned width(Value value) { return element(value).getIntOrFloatBitWidth(); }
  /// The type of `like` with another element type.
  static Type withElement(Type like, Type element) {
    auto vector = mlir::dyn_cast<mlir::VectorType>(like);
    return vector
               ? Type(mlir::VectorType::get(vector.getShape(), element, vector.getScalableDims()))
               : element;
  }
  static Type withElement(Value like, Type element) { return withElement(like.getType(), element); }

  Type f32() const { return builder.getF32Type(); }
  Type f64() const { return builder.getF64Type(); }
  Type integerType(unsigned bits) const { return builder.getIntegerType(bits); }

  /// `value` in the shape and element type of `like`.
  Value real(Value like, double value) const {
    return splat(like.getType(), mlir::FloatAttr::get(element(like), value));
  }
  Value integer(Value like, int64_t value) const {
    return splat(like.getType(),
                 builder.getIntegerAttr(element(like), llvm::APInt(width(like), uint64_t(value))));
  }
  Value number(Value like, double value) const {
    return isFloat(like) ? real(like, value) : integer(like, int64_t(value));
  }
  Value boolean(Value like, bool value) const {
    return splat(withElement(like, integerType(1)), builder.getBoolAttr(value));
  }

  template <typename Op, typename... Args> Value make(Args &&...args) const {
    return builder.createOrFold<Op>(location, std::forward<Args>(args)...);
  }

  Value add(Value a, Value b) const {
    if (element(a).isInteger(1))
      return bitOr(a, b); // a sum of booleans is whether it is not zero, as in NumPy
    return isFloat(a) ? make<mlir::arith::AddFOp>(a, b) : make<mlir::arith::AddIOp>(a, b);
  }
  Value sub(Value a, Value b) const {
    return isFloat(a) ? make<mlir::arith::SubFOp>(a, b) : make<mlir::arith::SubIOp>(a, b);
  }
  Value mul(Value a, Value b) const {
    return isFloat(a) ? make<mlir::arith::MulFOp>(a, b) : make<mlir::arith::MulIOp>(a, b);
  }
  Value div(Value a, Value b) const { return make<mlir::arith::DivFOp>(a, b); }
  Value neg(Value a) const {
    return isFloat(a) ? make<mlir::arith::NegFOp>(a) : sub(integer(a, 0), a);
  }
  Value abs(Value a) const {
    return isFloat(a) ? make<mlir::math::AbsFOp>(a) : make<mlir::math::AbsIOp>(a);
  }
  Value sqrt(Value a) const { return make<mlir::math::SqrtOp>(a); }
  Value copySign(Value magnitude, Value sign) const {
    return make<mlir::math::CopySignOp>(magnitude, sign);
  }
  /// a * b + c, fused where the machine can.
  Value multiplyAdd(Value a, Value b, Value c) const {
    auto contract = mlir::arith::FastMathFlags::contract;
    Value product = builder.create<mlir::arith::MulFOp>(location, a, b, contract);
    return builder.create<mlir::arith::AddFOp>(location, product, c, contract);
  }
  /// Horner's scheme, the highest coefficient first.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients) const {
    Value sum = real(x, coefficients.front());
    for (double coefficient : coefficients.drop_front())
      sum = multiplyAdd(sum, x, real(x, coefficient));
    return sum;
  }

  Value maximum(Value a, Value b) const {
    return make<mlir::arith::MaximumFOp>(a, b, mlir::arith::FastMathFlags::nsz);
  }
  Value minimum(Value a, Value b) const {
    return make<mlir::arith::MinimumFOp>(a, b, mlir::arith::FastMathFlags::nsz);
  }
  /// x within [low, high]; NaN stays. One instruction a side on some machines: the comparison with
  /// the constant first is exactly maxps.
  Value clamp(Value x, double low, double high) const {
    Value lower = real(x, low), upper = real(x, high);
    x = select(compare(mlir::arith::CmpFPredicate::OGT, lower, x), lower, x);
    return select(compare(mlir::arith::CmpFPredicate::OLT, upper, x), upper, x);
  }

  Value compare(mlir::arith::CmpFPredicate predicate, Value a, Value b) const {
    return make<mlir::arith::CmpFOp>(predicate, a, b);
  }
  Value compare(mlir::arith::CmpIPredicate predicate, Value a, Value b) const {
    return make<mlir::arith::CmpIOp>(predicate, a, b);
  }
  Value isNan(Value a) const { return compare(mlir::arith::CmpFPredicate::UNO, a, a); }
  Value equal(Value a, Value b) const {
    return isFloat(a) ? compare(mlir::arith::CmpFPredicate::OEQ, a, b)
                      : compare(mlir::arith::CmpIPredicate::eq, a, b);
  }
  Value less(Value a, Value b) const { return compare(mlir::arith::CmpFPredicate::OLT, a, b); }
  Value greater(Value a, Value b) const { return compare(mlir::arith::CmpFPredicate::OGT, a, b); }
  Value select(Value condition, Value a, Value b) const {
    return make<mlir::arith::SelectOp>(condition, a, b);
  }

  Value bitAnd(Value a, Value b) const { return make<mlir::arith::AndIOp>(a, b); }
  Value bitOr(Value a, Value b) const { return make<mlir::arith::OrIOp>(a, b); }
  Value bitXor(Value a, Value b) const { return make<mlir::arith::XOrIOp>(a, b); }
  Value shiftLeft(Value a, int64_t bits) const {
    return make<mlir::arith::ShLIOp>(a, integer(a, bits));
  }
  Value shiftRight(Value a, int64_t bits) const { // keeps the sign
    return make<mlir::arith::ShRSIOp>(a, integer(a, bits));
  }
  Value bits(Value a) const { return reinterpret(a, integerType(width(a))); }
  Value reinterpret(Value a, Type to) const {
    return make<mlir::arith::BitcastOp>(withElement(a, to), a);
  }
  /// An integer resized, signed or not; the same where it has that width.
  Value resize(Value a, unsigned bits, bool isUnsigned) const {
    Type type = withElement(a, integerType(bits));
    if (width(a) == bits)
      return a;
    if (width(a) > bits)
      return make<mlir::arith::TruncIOp>(type, a);
    return isUnsigned ? make<mlir::arith::ExtUIOp>(type, a) : make<mlir::arith::ExtSIOp>(type, a);
  }
  Value toFloat(Value a, Type to) const { // between floats
    Type type = withElement(a, to);
    if (type == a.getType())
      return a;
    return width(a) < to.getIntOrFloatBitWidth() ? make<mlir::arith::ExtFOp>(type, a)
                                                 : make<mlir::arith::TruncFOp>(type, a);
  }

  mlir::OpBuilder &builder;
  mlir::Location location;

private:
  Value splat(Type type, mlir::TypedAttr scalar) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return builder.create<mlir::arith::ConstantOp>(
          location, mlir::DenseElementsAttr::get(vector, mlir::Attribute(scalar)));
    return builder.create<mlir::arith::ConstantOp>(location, scalar);
  }
};

} // namespace tensmith::graph
