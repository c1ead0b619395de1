// Roundings, conversions and extrema as instructions; see NumericInstructions.h.
#include "compiler/targets/cpu/codegen/NumericInstructions.h"

#include "mlir/Conversion/ArithCommon/AttrToLLVMConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

/// %x of arith.select (arith.cmpf uno %x, %x), 0, %x.
Value withoutNan(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
  if (!compare || compare.getPredicate() != arith::CmpFPredicate::UNO ||
      compare.getLhs() != compare.getRhs() || compare.getLhs() != select.getFalseValue())
    return {};
  return matchPattern(select.getTrueValue(), m_AnyZeroFloat()) ? select.getFalseValue() : Value();
}

/// A rounding to the nearest whole number, the even one of two, and the clamps behind it, the last
/// first.
struct RoundedValue {
  math::RoundEvenOp round;
  SmallVector<Operation *> clamps;
};

/// What leads to `value`, if that alone takes it and its bounds are whole numbers: these can then
/// be kept to before the rounding as well.
std::optional<RoundedValue> roundingBefore(Value value) {
  RoundedValue found;
  while (Operation *op = value.getDefiningOp()) {
    if (auto round = dyn_cast<math::RoundEvenOp>(op)) {
      found.round = round;
      return found;
    }
    if (!isa<arith::MaximumFOp, arith::MinimumFOp>(op))
      return std::nullopt;
    APFloat bound(0.0f);
    if (!matchPattern(op->getOperand(1), m_ConstantFloat(&bound)) || !bound.isInteger() ||
        !op->getOperand(0).hasOneUse())
      return std::nullopt;
    found.clamps.push_back(op);
    value = op->getOperand(0);
  }
  return std::nullopt;
}

Value clampedBeforeRounding(ImplicitLocOpBuilder &b, const RoundedValue &rounded) {
  math::RoundEvenOp round = rounded.round;
  Value value = round.getOperand();
  for (Operation *clamp : llvm::reverse(rounded.clamps)) {
    IRMapping map;
    map.map(clamp->getOperand(0), value);
    value = b.clone(*clamp, map)->getResult(0);
  }
  return value;
}

/// x86's instruction gives some number for what doesn't fit, and NaN.
Value convertOnX86(ImplicitLocOpBuilder &b, Type type, Value x, bool takesNan) {
  if (takesNan) {
    Value zero = b.create<arith::ConstantOp>(b.getZeroAttr(x.getType()));
    Value isNan = b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, x, x);
    x = b.create<arith::SelectOp>(isNan, zero, x);
  }
  return b.create<LLVM::LrintOp>(type, x);
}

/// ARM's gives 0 for NaN, and is one of four lanes.
Value convertOnArm64(ImplicitLocOpBuilder &b, VectorType type, Value x) {
  constexpr int64_t kLanes = 4;
  auto part = VectorType::get({kLanes}, b.getI32Type());
  Value result = b.create<arith::ConstantOp>(b.getZeroAttr(type));
  for (int64_t lane = 0; lane < type.getNumElements(); lane += kLanes) {
    Value four = b.createOrFold<vector::ExtractStridedSliceOp>(x, lane, kLanes, 1);
    Value converted = b.create<LLVM::CallIntrinsicOp>(TypeRange(part),
                                                      b.getStringAttr("llvm.aarch64.neon.fcvtns"),
                                                      ValueRange(four))
                          .getResult(0);
    result = type == part ? converted
                          : b.create<vector::InsertStridedSliceOp>(converted, result, lane, 1);
  }
  return result;
}

/// before: arith.maximumf %a, %b : f32
/// after:  llvm.intr.maximum(%a, %b)
/// Written as a comparison and two selections, as otherwise, LLVM does not see that a loop looks
/// for the largest, and computes one element after the other.
template <typename Op, typename Intrinsic> struct ExtremumByIntrinsic : OpRewritePattern<Op> {
  ExtremumByIntrinsic(MLIRContext *context, bool ofVectors)
      : OpRewritePattern<Op>(context, /*benefit=*/2), ofVectors(ofVectors) {}

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Type element = getElementTypeOrSelf(op.getType());
    bool isVector = isa<VectorType>(op.getType());
    if ((isVector && !ofVectors) || !(element.isF32() || element.isF64()))
      return rewriter.notifyMatchFailure(op, "no f32 or f64, or a vector");
    rewriter.replaceOpWithNewOp<Intrinsic>(
        op, op.getType(), op.getLhs(), op.getRhs(),
        arith::convertArithFastMathFlagsToLLVM(op.getFastmath()));
    return success();
  }

  bool ofVectors;
};

/// before: arith.select (arith.cmpf ogt, %bound, %x), %bound, %x
/// after:  llvm.intr.maximum(%x, %bound), and the minimum of olt
struct ClampByIntrinsic : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::SelectOp op, PatternRewriter &rewriter) const override {
    auto compare = op.getCondition().getDefiningOp<arith::CmpFOp>();
    Value bound = op.getTrueValue(), x = op.getFalseValue();
    Type element = getElementTypeOrSelf(op.getType());
    APFloat number(0.0f);
    if (!compare || !matchPattern(bound, m_ConstantFloat(&number)) || number.isNaN() ||
        compare.getLhs() != bound || compare.getRhs() != x || !(element.isF32() || element.isF64()))
      return rewriter.notifyMatchFailure(op, "no bound");
    if (compare.getPredicate() == arith::CmpFPredicate::OGT)
      rewriter.replaceOpWithNewOp<LLVM::MaximumOp>(op, op.getType(), x, bound);
    else if (compare.getPredicate() == arith::CmpFPredicate::OLT)
      rewriter.replaceOpWithNewOp<LLVM::MinimumOp>(op, op.getType(), x, bound);
    else
      return rewriter.notifyMatchFailure(op, "another comparison");
    return success();
  }
};

} // namespace

void convertRounded(ModuleOp module, const Cpu &machine) {
  bool isArm = machine.isArm64();
  if (!isArm && !machine.has("avx2"))
    return;
  module.walk([&](arith::FPToSIOp op) {
    auto type = dyn_cast<VectorType>(op.getType());
    if (!type || !type.getElementType().isInteger(32) ||
        !getElementTypeOrSelf(op.getIn().getType()).isF32() ||
        (isArm && (type.getRank() != 1 || type.getNumElements() % 4 != 0)))
      return;
    Value inner = withoutNan(op.getIn());
    auto rounded = roundingBefore(inner ? inner : op.getIn());
    if (!rounded)
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Value clamped = clampedBeforeRounding(b, *rounded);
    Value converted =
        isArm ? convertOnArm64(b, type, clamped) : convertOnX86(b, type, clamped, bool(inner));
    op.replaceAllUsesWith(converted);
    op.erase();
  });
}

void addExtrema(RewritePatternSet &patterns, const Cpu &machine) {
  bool isArm = machine.isArm64();
  patterns.add<ExtremumByIntrinsic<arith::MaximumFOp, LLVM::MaximumOp>,
               ExtremumByIntrinsic<arith::MinimumFOp, LLVM::MinimumOp>>(patterns.getContext(),
                                                                        /*ofVectors=*/isArm);
  if (isArm)
    patterns.add<ClampByIntrinsic>(patterns.getContext());
}

} // namespace tensmith::targets::cpu
