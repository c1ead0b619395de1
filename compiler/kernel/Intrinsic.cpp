// What instructions mean, and the same by any machine's means; see Intrinsic.h.
#include "compiler/kernel/Intrinsic.h"

#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

bool isFloat(Number number) { return number == Number::BF16 || number == Number::F32; }

Value emitExtension(OpBuilder &builder, Location location, Value value, Number number, Type wide) {
  if (value.getType() == wide)
    return value;
  if (isFloat(number))
    return builder.create<arith::ExtFOp>(location, wide, value);
  if (number == Number::U8)
    return builder.create<arith::ExtUIOp>(location, wide, value);
  return builder.create<arith::ExtSIOp>(location, wide, value);
}

Value as(OpBuilder &builder, Location location, Type type, Value bits) {
  return builder.createOrFold<LLVM::BitcastOp>(location, type, bits);
}

/// The sum and the products of the bits of two bytes, one by one.
Value emitBitProducts(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  auto bit = [&](Value byte, int64_t number) -> Value {
    Value by = builder.create<arith::ConstantIntOp>(location, number, byte.getType());
    Value one = builder.create<arith::ConstantIntOp>(location, 1, byte.getType());
    Value shifted = builder.create<arith::ShRUIOp>(location, byte, by);
    return builder.create<arith::AndIOp>(location, shifted, one);
  };
  for (int64_t number = 0; number < 8; ++number) {
    Value product = builder.create<arith::MulIOp>(location, bit(left, number), bit(right, number));
    if (product.getType() != sum.getType())
      product = builder.create<arith::ExtUIOp>(location, sum.getType(), product);
    sum = builder.create<arith::AddIOp>(location, sum, product);
  }
  return sum;
}

/// One of each lane's products at a time.
Value emitBytesApart(OpBuilder &builder, Location location, Value left, Value right, Value sum,
                     bool isUnsigned) {
  constexpr int64_t kDepth = 4;
  int64_t lanes = cast<VectorType>(sum.getType()).getNumElements();
  Type bytes = VectorType::get({lanes * kDepth}, builder.getI8Type());
  left = as(builder, location, bytes, left);
  right = as(builder, location, bytes, right);
  for (int64_t k = 0; k < kDepth; ++k) {
    SmallVector<int64_t> places;
    for (int64_t lane = 0; lane < lanes; ++lane)
      places.push_back(lane * kDepth + k);
    Value a = builder.create<vector::ShuffleOp>(location, left, left, places);
    Value b = builder.create<vector::ShuffleOp>(location, right, right, places);
    sum = emitMultiplyAdd(builder, location, a, isUnsigned, b, false, sum);
  }
  return sum;
}

Value emitUnsignedBytesApart(OpBuilder &builder, Location location, Value left, Value right,
                             Value sum) {
  return emitBytesApart(builder, location, left, right, sum, /*isUnsigned=*/true);
}

Value emitSignedBytesApart(OpBuilder &builder, Location location, Value left, Value right,
                           Value sum) {
  return emitBytesApart(builder, location, left, right, sum, /*isUnsigned=*/false);
}

/// A bf16 is the upper half of a float.
Value emitHalvesApart(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  Type bits = cast<VectorType>(sum.getType()).clone(builder.getI32Type());
  auto constant = [&](int64_t value) {
    return builder.create<arith::ConstantOp>(
        location, DenseElementsAttr::get(cast<ShapedType>(bits), APInt(32, uint64_t(value))));
  };
  auto low = [&](Value pair) {
    return as(builder, location, sum.getType(),
              builder.create<arith::ShLIOp>(location, pair, constant(16)));
  };
  auto high = [&](Value pair) {
    return as(builder, location, sum.getType(),
              builder.create<arith::AndIOp>(location, pair, constant(0xFFFF0000)));
  };
  Value a = as(builder, location, bits, left), b = as(builder, location, bits, right);
  sum = emitMultiplyAdd(builder, location, low(a), false, low(b), false, sum);
  return emitMultiplyAdd(builder, location, high(a), false, high(b), false, sum);
}

/// Of two rows, each beside the other: one of the products of each sum at a time. `kOf` are the
/// numbers of both operands.
template <Number kOf, int64_t kDepth>
Value emitTwoRows(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  constexpr int64_t kRows = 2;
  auto type = cast<VectorType>(sum.getType());
  int64_t lanes = type.getNumElements() / kRows;
  Type element = kOf == Number::BF16 ? builder.getI16Type() : builder.getI8Type();
  left = as(builder, location, VectorType::get({kRows * kDepth}, element), left);
  right = as(builder, location, VectorType::get({lanes * kDepth}, element), right);
  // A bf16 is the upper half of a float.
  auto bfloat = [&](Value halves) {
    auto words = type.clone(builder.getI32Type());
    Value wide = builder.create<arith::ExtUIOp>(location, words, halves);
    Value half = builder.create<arith::ConstantOp>(
        location, DenseElementsAttr::get(cast<ShapedType>(words), APInt(32, 16)));
    return as(builder, location, type, builder.create<arith::ShLIOp>(location, wide, half));
  };
  for (int64_t k = 0; k < kDepth; ++k) {
    SmallVector<int64_t> ofLeft, ofRight;
    for (int64_t place = 0; place < kRows * lanes; ++place) {
      ofLeft.push_back(place / lanes * kDepth + k);
      ofRight.push_back(place % lanes * kDepth + k);
    }
    Value a = builder.create<vector::ShuffleOp>(location, left, left, ofLeft);
    Value b = builder.create<vector::ShuffleOp>(location, right, right, ofRight);
    if (kOf == Number::BF16)
      sum = emitMultiplyAdd(builder, location, bfloat(a), false, bfloat(b), false, sum);
    else
      sum = emitMultiplyAdd(builder, location, a, false, b, false, sum);
  }
  return sum;
}

} // namespace

bool isNumber(Type type, Number number) {
  switch (number) {
  case Number::U1:
    return type.isUnsignedInteger(1);
  case Number::U8:
    return type.isUnsignedInteger(8);
  case Number::I8:
    return type.isSignlessInteger(8);
  case Number::I16:
    return type.isSignlessInteger(16);
  case Number::BF16:
    return type.isBF16();
  case Number::I32:
    return type.isSignlessInteger(32);
  case Number::I64:
    return type.isSignlessInteger(64);
  case Number::F32:
    return type.isF32();
  }
  llvm_unreachable("all numbers are above");
}

int64_t bitsOf(Number number) {
  switch (number) {
  case Number::U1:
    return 1;
  case Number::U8:
  case Number::I8:
    return 8;
  case Number::I16:
  case Number::BF16:
    return 16;
  case Number::I32:
  case Number::F32:
    return 32;
  case Number::I64:
    return 64;
  }
  llvm_unreachable("all numbers are above");
}

linalg::GenericOp emitMeaning(OpBuilder &builder, Location location, const Intrinsic &intrinsic,
                              Value left, Value right, Value sums) {
  assert(!intrinsic.has(OfTiles) && "of tiles nothing is generated");
  // Rows and lanes, or lanes alone; and the depth.
  bool hasRows = intrinsic.rows > 1;
  unsigned dims = hasRows ? 3 : 2;
  auto of = [&](ArrayRef<unsigned> kept) {
    return AffineMap::getMultiDimMapWithTargets(dims, kept, builder.getContext());
  };
  SmallVector<AffineMap> maps{of({0, 1}), of({0, 1}), of({0})};
  if (hasRows)
    maps = {of({0, 2}), of({1, 2}), of({0, 1})};
  SmallVector<utils::IteratorType> iterators(dims, utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  return builder.create<linalg::GenericOp>(
      location, ValueRange{left, right}, ValueRange{sums}, maps, iterators,
      [&](OpBuilder &body, Location at, ValueRange elements) {
        Type wide = elements[2].getType();
        if (intrinsic.left == Number::U1) {
          Value sum = emitBitProducts(body, at, elements[0], elements[1], elements[2]);
          body.create<linalg::YieldOp>(at, sum);
          return;
        }
        Value a = emitExtension(body, at, elements[0], intrinsic.left, wide);
        Value b = emitExtension(body, at, elements[1], intrinsic.right, wide);
        Value sum;
        if (isFloat(intrinsic.sum))
          sum = body.create<arith::AddFOp>(at, elements[2], body.create<arith::MulFOp>(at, a, b));
        else
          sum = body.create<arith::AddIOp>(at, elements[2], body.create<arith::MulIOp>(at, a, b));
        body.create<linalg::YieldOp>(at, sum);
      });
}

const Intrinsic *portableIntrinsic(Number left, Number right, Number sum, int64_t rows) {
  // Slower than products one by one.
  constexpr double kRate = 0.5;
  static constexpr Intrinsic kAll[] = {
      {"bytes apart", "", Number::U8, Number::I8, Number::I32, 1, 0, 4, kRate, AddsToSum,
       emitUnsignedBytesApart},
      {"signed bytes apart", "", Number::I8, Number::I8, Number::I32, 1, 0, 4, kRate, AddsToSum,
       emitSignedBytesApart},
      {"halves apart", "", Number::BF16, Number::BF16, Number::F32, 1, 0, 2, kRate, AddsToSum,
       emitHalvesApart},
      {"two rows of bytes", "", Number::I8, Number::I8, Number::I32, 2, 0, 8, kRate, AddsToSum,
       emitTwoRows<Number::I8, 8>},
      {"two rows of halves", "", Number::BF16, Number::BF16, Number::F32, 2, 0, 4, kRate, AddsToSum,
       emitTwoRows<Number::BF16, 4>}};
  const auto *found = llvm::find_if(kAll, [&](const Intrinsic &one) {
    return one.left == left && one.right == right && one.sum == sum && one.rows == rows;
  });
  return found == std::end(kAll) ? nullptr : found;
}

} // namespace tensmith::kernel
