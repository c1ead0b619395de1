// Emits products of pairs of bf16; see PairProducts.h.
#include "compiler/kernel/PairProducts.h"

#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// A bf16 is the upper half of a float.
Value emitWidened(OpBuilder &builder, Location location, Value a, Value b, Value sum) {
  auto constant = [&](int64_t value) {
    return builder.create<arith::ConstantOp>(
        location,
        DenseElementsAttr::get(cast<ShapedType>(a.getType()), APInt(32, uint64_t(value))));
  };
  auto asFloats = [&](Value bits) {
    return builder.create<LLVM::BitcastOp>(location, sum.getType(), bits);
  };
  auto low = [&](Value pair) {
    return asFloats(builder.create<arith::ShLIOp>(location, pair, constant(16)));
  };
  auto high = [&](Value pair) {
    return asFloats(builder.create<arith::AndIOp>(location, pair, constant(0xFFFF0000)));
  };
  sum = emitMultiplyAdd(builder, location, low(a), false, low(b), false, sum);
  return emitMultiplyAdd(builder, location, high(a), false, high(b), false, sum);
}

} // namespace

Value emitPairProducts(OpBuilder &builder, Location location, BfloatProducts products, Value a,
                       Value b, Value sum) {
  if (products != BfloatProducts::Dot)
    return emitWidened(builder, location, a, b, sum);
  int64_t lanes = cast<VectorType>(sum.getType()).getNumElements();
  Type pairs = VectorType::get({2 * lanes}, builder.getBF16Type());
  auto asPairs = [&](Value bits) { return builder.create<LLVM::BitcastOp>(location, pairs, bits); };
  auto name = "llvm.x86.avx512bf16.dpbf16ps." + std::to_string(lanes * 32);
  return builder
      .create<LLVM::CallIntrinsicOp>(location, TypeRange(sum.getType()),
                                     builder.getStringAttr(name),
                                     ValueRange{sum, asPairs(a), asPairs(b)})
      .getResult(0);
}

} // namespace tensmith::kernel
