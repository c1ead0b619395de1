// RISC-V's instruction that multiplies and adds to sums of twice the bits; see Intrinsics.h.
//
// "RISC-V "V" Vector Extension", version 1.0, section 11.14: vwmacc. LLVM's vectors of a known
// number of lanes are put into those that grow with the machine, of which the first lanes are used:
// both are the same register, and the instruction is the only one that the sum takes. Of products
// and sums apart LLVM makes two wherever it adds up products before their sum.
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

using kernel::Number;

constexpr int64_t kBlockBits = 64; // that vectors of each number of lanes are counted in

/// The lanes of a vector as the first of a register's.
Value inRegister(OpBuilder &builder, Location location, Value lanes, Type type) {
  Value nothing = builder.create<LLVM::UndefOp>(location, type);
  return builder.create<vector::ScalableInsertOp>(location, lanes, nothing, /*pos=*/0);
}

/// Sums and operands of as many lanes as a vector of sums has. What all lanes share stays a scalar.
Value emitVwmacc(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  auto type = cast<VectorType>(sum.getType());
  int64_t blocks = kBlockBits / type.getElementTypeBitWidth();
  auto growing = [&](Type element) { return VectorType::get({blocks}, element, {true}); };
  Type half = growing(builder.getI16Type()), whole = growing(type.getElementType());
  auto constant = [&](int64_t value) -> Value {
    return builder.create<LLVM::ConstantOp>(location, builder.getI64IntegerAttr(value));
  };
  constexpr int64_t kAnyRest = 1; // lanes behind those that are counted may have any value
  auto shared = left.getDefiningOp<vector::BroadcastOp>();
  bool isShared = shared && !isa<VectorType>(shared.getSource().getType());
  Value a = isShared ? shared.getSource() : inRegister(builder, location, left, half);
  Value result = emitIntrinsic(builder, location, "llvm.riscv.vwmacc", whole,
                               {inRegister(builder, location, sum, whole), a,
                                inRegister(builder, location, right, half),
                                constant(type.getNumElements()), constant(kAnyRest)});
  return builder.create<vector::ScalableExtractOp>(location, type, result, /*pos=*/0);
}

} // namespace

llvm::ArrayRef<kernel::Intrinsic> riscvIntrinsics() {
  static constexpr kernel::Intrinsic kAll[] = {{"vwmacc", "v", Number::I16, Number::I16,
                                                Number::I32, 1, 0, 1, 1, kernel::AddsToSum,
                                                emitVwmacc}};
  return kAll;
}

} // namespace tensmith::targets::cpu
