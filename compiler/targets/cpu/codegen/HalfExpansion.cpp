// The patterns of HalfExpansion.h.
#include "compiler/targets/cpu/codegen/HalfExpansion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

/// Arithmetic on the bits of a value of some shape, written as on scalars.
struct BitMath {
  ImplicitLocOpBuilder b;
  Type shape; // of any element type

  BitMath(PatternRewriter &rewriter, Operation *op, Type shape)
      : b(op->getLoc(), rewriter), shape(shape) {}

  Type of(Type element) {
    auto vector = dyn_cast<VectorType>(shape);
    return vector ? Type(vector.clone(element)) : element;
  }
  Value bits(uint32_t value) {
    Type type = of(b.getI32Type());
    Attribute number = b.getI32IntegerAttr(int32_t(value));
    if (auto vector = dyn_cast<VectorType>(type))
      number = DenseElementsAttr::get(vector, number);
    return b.create<arith::ConstantOp>(cast<TypedAttr>(number));
  }
  Value asFloat(Value value) { return b.create<arith::BitcastOp>(of(b.getF32Type()), value); }
  Value asBits(Value value) { return b.create<arith::BitcastOp>(of(b.getI32Type()), value); }
  Value band(Value value, uint32_t mask) { return b.create<arith::AndIOp>(value, bits(mask)); }
  Value shl(Value value, uint32_t by) { return b.create<arith::ShLIOp>(value, bits(by)); }
  Value shr(Value value, uint32_t by) { return b.create<arith::ShRUIOp>(value, bits(by)); }
  Value below(Value value, uint32_t limit) {
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, value, bits(limit));
  }
  Value select(Value condition, Value yes, Value no) {
    return b.create<arith::SelectOp>(condition, yes, no);
  }
};

constexpr uint32_t kFloatInfinity = 0x7f800000, kHalfInfinity = 0x7c00, kHalfNan = 0x7e00;

struct ExtendHalf : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getIn().getType()).isF16() ||
        !getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not from f16 to f32");
    BitMath m(rewriter, op, op.getType());
    auto &b = m.b;
    Value half = b.create<arith::BitcastOp>(m.of(b.getI16Type()), op.getIn());
    Value wide = b.create<arith::ExtUIOp>(m.of(b.getI32Type()), half);
    Value magnitude = m.band(wide, 0x7fff), moved = m.shl(magnitude, 13);
    constexpr uint32_t kTwoTo112 =
        (127 + 112) << 23; // the difference of the exponents' biases; also makes subnormals normal
    Value finite =
        m.asBits(b.create<arith::MulFOp>(m.asFloat(moved), m.asFloat(m.bits(kTwoTo112))));
    Value special = b.create<arith::OrIOp>(moved, m.bits(kFloatInfinity));
    Value result = m.select(m.below(magnitude, kHalfInfinity), finite, special);
    Value sign = m.shl(m.band(wide, 0x8000), 16);
    rewriter.replaceOp(op, m.asFloat(b.create<arith::OrIOp>(result, sign)));
    return success();
  }
};

struct TruncateToHalf : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getIn().getType()).isF32() ||
        !getElementTypeOrSelf(op.getType()).isF16())
      return rewriter.notifyMatchFailure(op, "not from f32 to f16");
    BitMath m(rewriter, op, op.getType());
    auto &b = m.b;
    Value all = m.asBits(op.getIn());
    Value magnitude = m.band(all, 0x7fffffff), sign = m.shr(m.band(all, 0x80000000), 16);
    constexpr uint32_t kTooLarge = (127 + 16) << 23, kLeastNormal = (127 - 14) << 23;
    constexpr uint32_t kHalf =
        126 << 23; // added to a subnormal, it moves the bits to be kept to the end, rounded
    Value special =
        m.select(m.below(magnitude, kFloatInfinity + 1), m.bits(kHalfInfinity), m.bits(kHalfNan));
    Value shifted =
        m.asBits(b.create<arith::AddFOp>(m.asFloat(magnitude), m.asFloat(m.bits(kHalf))));
    Value subnormal = b.create<arith::SubIOp>(shifted, m.bits(kHalf));
    Value odd = m.band(m.shr(magnitude, 13), 1);
    constexpr uint32_t kRebiasAndRound = (uint32_t(15 - 127) << 23) + 0xfff;
    Value rounded =
        b.create<arith::AddIOp>(b.create<arith::AddIOp>(magnitude, m.bits(kRebiasAndRound)), odd);
    Value finite = m.select(m.below(magnitude, kLeastNormal), subnormal, m.shr(rounded, 13));
    Value result = m.select(m.below(magnitude, kTooLarge), finite, special);
    Value narrow =
        b.create<arith::TruncIOp>(m.of(b.getI16Type()), b.create<arith::OrIOp>(result, sign));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), narrow);
    return success();
  }
};

} // namespace

void addHalfExpansions(RewritePatternSet &patterns) {
  patterns.add<ExtendHalf, TruncateToHalf>(patterns.getContext());
}

} // namespace tensmith::targets::cpu
