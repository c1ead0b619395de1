// The instructions of 64-bit ARM that add up products; see Intrinsics.h.
//
// "Arm Architecture Reference Manual for A-profile architecture", C7: SDOT, UDOT, USDOT, BFDOT, by
// vectors; SMMLA, UMMLA, USMMLA, BFMMLA; CNT, UADDLP. C8: the same of SVE.
//
// SVE's vectors have the length that the machine has, which is known here: kernels' vectors are of
// fixed lengths, and only the operands of an instruction that is named take the other form.
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

using kernel::Number;

/// Templates give all lanes one left operand, which these take from a lane of a register: as the
/// last of their operands, but for usdot, whose other form (sudot) takes the unsigned ones so.
Value emitCall(OpBuilder &builder, Location location, llvm::StringRef name, Type operand,
               Value left, Value right, Value sum) {
  auto as = [&](Value bits) -> Value {
    return builder.createOrFold<LLVM::BitcastOp>(location, operand, bits);
  };
  return emitIntrinsic(builder, location, name, sum.getType(), {sum, as(left), as(right)});
}

template <const char *name, bool swaps>
Value emitDot(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  return emitCall(builder, location, name, VectorType::get({16}, builder.getI8Type()),
                  swaps ? right : left, swaps ? left : right, sum);
}
constexpr char kUsdot[] = "llvm.aarch64.neon.usdot", kSdot[] = "llvm.aarch64.neon.sdot",
               kUdot[] = "llvm.aarch64.neon.udot";

/// Of two rows and two columns; the columns are the second operand.
template <const char *name>
Value emitMatrix(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  return emitCall(builder, location, name, VectorType::get({16}, builder.getI8Type()), left, right,
                  sum);
}
constexpr char kUsmmla[] = "llvm.aarch64.neon.usmmla", kSmmla[] = "llvm.aarch64.neon.smmla",
               kUmmla[] = "llvm.aarch64.neon.ummla";

Value emitBfmmla(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  return emitCall(builder, location, "llvm.aarch64.neon.bfmmla",
                  VectorType::get({8}, builder.getBF16Type()), left, right, sum);
}

Value emitBfdot(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  return emitCall(builder, location, "llvm.aarch64.neon.bfdot",
                  VectorType::get({8}, builder.getBF16Type()), right, left, sum);
}

Value emitCounts(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  Type bytes = sum.getType();
  auto as = [&](Value bits) -> Value {
    return builder.createOrFold<LLVM::BitcastOp>(location, bytes, bits);
  };
  Value both = builder.createOrFold<arith::AndIOp>(location, as(left), as(right));
  Value counts = builder.create<LLVM::CtPopOp>(location, bytes, both);
  return builder.create<arith::AddIOp>(location, sum, counts);
}

/// Added to other sums, LLVM makes the last of them uadalp.
Value emitPairwiseSums(OpBuilder &builder, Location location, Value sums) {
  constexpr int64_t kBytes = 16, kWords = 2; // of a vector of NEON's
  int64_t all = cast<VectorType>(sums.getType()).getNumElements();
  Value result;
  for (int64_t byte = 0; byte < all; byte += kBytes) {
    Value part = builder.createOrFold<vector::ExtractStridedSliceOp>(location, sums, byte, kBytes,
                                                                     /*strides=*/1);
    for (unsigned bits = 16, lanes = 8; bits <= 64; bits *= 2, lanes /= 2) {
      Type wide = VectorType::get({int64_t(lanes)}, builder.getIntegerType(bits));
      part = emitIntrinsic(builder, location, "llvm.aarch64.neon.uaddlp", wide, part);
    }
    if (all == kBytes)
      return part;
    if (!result)
      result = builder.create<arith::ConstantOp>(
          location,
          builder.getZeroAttr(VectorType::get({all / kBytes * kWords}, builder.getI64Type())));
    result = builder.create<vector::InsertStridedSliceOp>(location, part, result,
                                                          byte / kBytes * kWords, /*strides=*/1);
  }
  return result;
}

/// Of a vector, which instructions of several rows take for themselves.
constexpr int64_t kPartBits = 128;

/// Each 128 bits the first ones.
Value repeated(OpBuilder &builder, Location location, Value vector) {
  Value index = builder.create<LLVM::ConstantOp>(location, builder.getI64IntegerAttr(0));
  return emitIntrinsic(builder, location, "llvm.aarch64.sve.dupq.lane", vector.getType(),
                       {vector, index});
}

Type operandOf(OpBuilder &builder, Number number) {
  return number == Number::BF16 ? Type(builder.getBF16Type()) : Type(builder.getI8Type());
}

template <const char *name, Number number, bool swaps>
Value emitScalableDot(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  Type element = operandOf(builder, number);
  auto scalable = [&](Value value) { return asScalable(builder, location, value, element); };
  Value sums = asScalable(builder, location, sum);
  Value result =
      emitIntrinsic(builder, location, name, sums.getType(),
                    {sums, scalable(swaps ? right : left), scalable(swaps ? left : right)});
  return asFixed(builder, location, result, sum.getType());
}
constexpr char kScalableUsdot[] = "llvm.aarch64.sve.usdot",
               kScalableSdot[] = "llvm.aarch64.sve.sdot", kScalableUdot[] = "llvm.aarch64.sve.udot",
               kScalableBfdot[] = "llvm.aarch64.sve.bfdot";

/// Where all lanes share the left operand it is taken from one of them: this form adds to its sum
/// in place, where LLVM may leave that of the other in any register, and finds too few for a tile
/// then.
Value emitScalableMultiplyAdd(OpBuilder &builder, Location location, Value left, Value right,
                              Value sum) {
  bool isShared = isa_and_nonnull<vector::SplatOp, vector::BroadcastOp>(left.getDefiningOp());
  if (!isShared || !isScalable(sum.getType()))
    return builder.create<LLVM::FMAOp>(location, left, right, sum);
  Value sums = asScalable(builder, location, sum);
  Value lane = builder.create<LLVM::ConstantOp>(location, builder.getI32IntegerAttr(0));
  Value result = emitIntrinsic(
      builder, location, "llvm.aarch64.sve.fmla.lane", sums.getType(),
      {sums, asScalable(builder, location, right), asScalable(builder, location, left), lane});
  return asFixed(builder, location, result, sum.getType());
}

constexpr char kScalableUsmmla[] = "llvm.aarch64.sve.usmmla",
               kScalableSmmla[] = "llvm.aarch64.sve.smmla",
               kScalableUmmla[] = "llvm.aarch64.sve.ummla",
               kScalableBfmmla[] = "llvm.aarch64.sve.bfmmla";

/// Of two rows, which all blocks share, and two columns in each 128 bits.
template <const char *name, Number number>
Value emitScalableMatrix(OpBuilder &builder, Location location, Value left, Value right,
                         Value sum) {
  Type element = operandOf(builder, number);
  Value rows = repeated(builder, location, asScalable(builder, location, left, element));
  Value sums = asScalable(builder, location, sum);
  Value result = emitIntrinsic(builder, location, name, sums.getType(),
                               {sums, rows, asScalable(builder, location, right, element)});
  return asFixed(builder, location, result, sum.getType());
}

} // namespace

bool isScalable(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getNumElements() * vector.getElementTypeBitWidth() > kPartBits;
}

Value asScalable(OpBuilder &builder, Location location, Value fixed, Type element) {
  auto of = [](Type number) {
    return VectorType::get({kPartBits / number.getIntOrFloatBitWidth()}, number,
                           /*scalableDims=*/{true});
  };
  auto type = cast<VectorType>(fixed.getType());
  if (!element)
    element = type.getElementType();
  // LLVM 19 takes vectors of bf16 of fixed lengths apart.
  Type number = element.isBF16() ? Type(builder.getI16Type()) : element;
  int64_t bits = type.getNumElements() * type.getElementTypeBitWidth();
  auto same = VectorType::get({bits / number.getIntOrFloatBitWidth()}, number);
  fixed = builder.createOrFold<LLVM::BitcastOp>(location, same, fixed);
  Value nothing = builder.create<LLVM::UndefOp>(location, of(number));
  Value scalable =
      builder.create<LLVM::vector_insert>(location, of(number), nothing, fixed, /*pos=*/0);
  return builder.createOrFold<LLVM::BitcastOp>(location, of(element), scalable);
}

Value asFixed(OpBuilder &builder, Location location, Value scalable, Type fixed) {
  if (scalable.getType() == fixed)
    return scalable;
  return builder.create<LLVM::vector_extract>(location, fixed, scalable, /*pos=*/0);
}

llvm::ArrayRef<kernel::Intrinsic> armIntrinsics() {
  static constexpr kernel::Intrinsic kAll[] = {
      {"usdot", "i8mm", Number::U8, Number::I8, Number::I32, 1, 4, 4, 4,
       kernel::AddsToSum | kernel::TakesLane, emitDot<kUsdot, false>},
      {"sdot", "dotprod", Number::I8, Number::I8, Number::I32, 1, 4, 4, 4,
       kernel::AddsToSum | kernel::TakesLane, emitDot<kSdot, true>},
      {"udot", "dotprod", Number::U8, Number::U8, Number::I32, 1, 4, 4, 4,
       kernel::AddsToSum | kernel::TakesLane, emitDot<kUdot, true>},
      {"bfdot", "bf16", Number::BF16, Number::BF16, Number::F32, 1, 4, 2, 2,
       kernel::AddsToSum | kernel::FlushesSubnormals | kernel::TakesLane, emitBfdot},
      {"usmmla", "i8mm", Number::U8, Number::I8, Number::I32, 2, 2, 8, 8, kernel::AddsToSum,
       emitMatrix<kUsmmla>},
      {"smmla", "i8mm", Number::I8, Number::I8, Number::I32, 2, 2, 8, 8, kernel::AddsToSum,
       emitMatrix<kSmmla>},
      {"ummla", "i8mm", Number::U8, Number::U8, Number::I32, 2, 2, 8, 8, kernel::AddsToSum,
       emitMatrix<kUmmla>},
      {"bfmmla", "bf16", Number::BF16, Number::BF16, Number::F32, 2, 2, 4, 4,
       kernel::AddsToSum | kernel::FlushesSubnormals, emitBfmmla},
      {"cnt", "neon", Number::U1, Number::U1, Number::U8, 1, 0, 8, 10, 0, emitCounts,
       emitPairwiseSums},
      {"usdot", "sve,i8mm", Number::U8, Number::I8, Number::I32, 1, 0, 4, 4, kernel::AddsToSum,
       emitScalableDot<kScalableUsdot, Number::I8, false>},
      {"sdot", "sve", Number::I8, Number::I8, Number::I32, 1, 0, 4, 4, kernel::AddsToSum,
       emitScalableDot<kScalableSdot, Number::I8, true>},
      {"udot", "sve", Number::U8, Number::U8, Number::I32, 1, 0, 4, 4, kernel::AddsToSum,
       emitScalableDot<kScalableUdot, Number::I8, true>},
      {"bfdot", "sve,bf16", Number::BF16, Number::BF16, Number::F32, 1, 0, 2, 2,
       kernel::AddsToSum | kernel::FlushesSubnormals,
       emitScalableDot<kScalableBfdot, Number::BF16, true>},
      {"usmmla", "sve,i8mm", Number::U8, Number::I8, Number::I32, 2, 2, 8, 8,
       kernel::AddsToSum | kernel::InBlocks | kernel::ShortReach,
       emitScalableMatrix<kScalableUsmmla, Number::I8>},
      {"smmla", "sve,i8mm", Number::I8, Number::I8, Number::I32, 2, 2, 8, 8,
       kernel::AddsToSum | kernel::InBlocks | kernel::ShortReach,
       emitScalableMatrix<kScalableSmmla, Number::I8>},
      {"ummla", "sve,i8mm", Number::U8, Number::U8, Number::I32, 2, 2, 8, 8,
       kernel::AddsToSum | kernel::InBlocks | kernel::ShortReach,
       emitScalableMatrix<kScalableUmmla, Number::I8>},
      {"bfmmla", "sve,bf16", Number::BF16, Number::BF16, Number::F32, 2, 2, 4, 4,
       kernel::AddsToSum | kernel::InBlocks | kernel::ShortReach | kernel::FlushesSubnormals,
       emitScalableMatrix<kScalableBfmmla, Number::BF16>},
      {"fmla", "sve", Number::F32, Number::F32, Number::F32, 1, 0, 1, 1,
       kernel::AddsToSum | kernel::ShortReach, emitScalableMultiplyAdd}};
  return kAll;
}

} // namespace tensmith::targets::cpu
