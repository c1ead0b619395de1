// The instructions of 64-bit ARM that add up products; see Intrinsics.h.
//
// "Arm Architecture Reference Manual for A-profile architecture", C7: SDOT, UDOT, USDOT, BFDOT, by
// vectors; SMMLA, UMMLA, USMMLA, BFMMLA; CNT, UADDLP.
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

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
  return builder
      .create<LLVM::CallIntrinsicOp>(location, TypeRange(sum.getType()),
                                     builder.getStringAttr(name),
                                     ValueRange{sum, as(left), as(right)})
      .getResult(0);
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
  for (unsigned bits = 16, lanes = 8; bits <= 64; bits *= 2, lanes /= 2) {
    Type wide = VectorType::get({int64_t(lanes)}, builder.getIntegerType(bits));
    sums = builder
               .create<LLVM::CallIntrinsicOp>(location, TypeRange(wide),
                                              builder.getStringAttr("llvm.aarch64.neon.uaddlp"),
                                              ValueRange(sums))
               .getResult(0);
  }
  return sums;
}

} // namespace

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
      {"cnt", "neon", Number::U1, Number::U1, Number::U8, 1, 16, 8, 10, 0, emitCounts,
       emitPairwiseSums}};
  return kAll;
}

} // namespace tensmith::targets::cpu
