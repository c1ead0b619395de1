// The pattern sets of the expansions; see Expansions.h.
#include "compiler/targets/cpu/codegen/Expansions.h"

#include "compiler/kernel/EmittedKernel.h"
#include "compiler/targets/cpu/codegen/HalfExpansion.h"
#include "compiler/targets/cpu/codegen/NumericInstructions.h"

#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorTransforms.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

Type withElement(Type type, Type element) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(element)) : element;
}

Value splat(OpBuilder &builder, Location location, Type type, int64_t value) {
  Attribute number = builder.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, number);
  return builder.create<arith::ConstantOp>(location, cast<TypedAttr>(number));
}

/// before: arith.truncf %x : f64 to f16 (or bf16)
/// after:  the f32 next to %x rounded to odd, then truncated
/// Going by way of the nearest f32 would round twice; rounding to odd keeps the second rounding
/// right, since f32 has more than two bits more than either (Boldo & Melquiond). x86 has no
/// instruction from f64, LLVM would call __truncdfhf2.
struct TruncateDoubleByOdd : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    Type from = op.getIn().getType(), to = op.getType();
    Type element = getElementTypeOrSelf(to);
    if (!getElementTypeOrSelf(from).isF64() || !(element.isF16() || element.isBF16()))
      return rewriter.notifyMatchFailure(op, "not from f64 to a 16-bit float");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type f32 = withElement(from, b.getF32Type()), i32 = withElement(from, b.getI32Type());
    Value nearest = b.create<arith::TruncFOp>(f32, op.getIn());
    Value back = b.create<arith::ExtFOp>(from, nearest);
    Value inexact = b.create<arith::CmpFOp>(arith::CmpFPredicate::ONE, back, op.getIn());
    Value above = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, b.create<math::AbsFOp>(back),
                                          b.create<math::AbsFOp>(op.getIn()));
    Value bits = b.create<arith::BitcastOp>(i32, nearest);
    Value one = splat(b, b.getLoc(), i32, 1);
    Value towardZero = b.create<arith::SelectOp>(above, b.create<arith::SubIOp>(bits, one), bits);
    Value odd = b.create<arith::OrIOp>(towardZero, one);
    Value chosen = b.create<arith::SelectOp>(inexact, odd, bits);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, to, b.create<arith::BitcastOp>(f32, chosen));
    return success();
  }
};

/// before: arith.truncf (arith.extf %x : bf16 to f32) : f32 to bf16
/// after:  %x
struct TruncateExtended : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    auto extended = op.getIn().getDefiningOp<arith::ExtFOp>();
    if (!extended || extended.getIn().getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "not of what was extended");
    rewriter.replaceOp(op, extended.getIn());
    return success();
  }
};

/// before: arith.truncf %x : vector<16xf32> to vector<16xbf16>
/// after:  vcvtneps2bf16
/// Ten instructions as bits; where numbers may be taken for zero that are subnormal.
struct TruncateByInstruction : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    auto to = dyn_cast<VectorType>(op.getType());
    bool fits = to && to.getElementType().isBF16() && to.getRank() == 1 &&
                (to.getNumElements() == 16 || to.getNumElements() == 8) &&
                getElementTypeOrSelf(op.getIn().getType()).isF32();
    if (!fits)
      return rewriter.notifyMatchFailure(op, "no vector from f32 to bf16");
    std::string name = "llvm.x86.avx512bf16.cvtneps2bf16." +
                       std::to_string(to.getNumElements() * int64_t(sizeof(float)) * 8);
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(op, TypeRange(to), name,
                                                       ValueRange{op.getIn()});
    return success();
  }
};

/// Whether numbers of 16 bits are computed as bits: the machine has no instructions for them.
bool areBits(Type element, bool convertsHalves) {
  return element.isBF16() || (element.isF16() && !convertsHalves);
}

/// before: llvm.store %x : bf16 (or f16, or a vector of it, or a masked store)
/// after:  its bits stored as i16
/// It is computed as bits from here on; where LLVM sees them made a number it chooses between two
/// of them as such (a NaN, or the rest), which is a call of __truncsfbf2.
template <typename Store> struct StoreBits : OpRewritePattern<Store> {
  StoreBits(MLIRContext *context, bool convertsHalves)
      : OpRewritePattern<Store>(context), convertsHalves(convertsHalves) {}

  LogicalResult matchAndRewrite(Store op, PatternRewriter &rewriter) const override {
    Type type = op.getValue().getType();
    if (!areBits(getElementTypeOrSelf(type), convertsHalves))
      return rewriter.notifyMatchFailure(op, "stores no bits");
    Value bits = rewriter.create<arith::BitcastOp>(
        op.getLoc(), withElement(type, rewriter.getI16Type()), op.getValue());
    rewriter.modifyOpInPlace(op, [&] { op.getValueMutable().assign(bits); });
    return success();
  }

  bool convertsHalves;
};

/// before: llvm.load : bf16 (or f16, or a vector of it, or a masked load)
/// after:  its bits loaded as i16
/// For the same reason: a vector of which one lane is asked for would become a conversion of it,
/// and bits without their sign an absolute value.
template <typename Load> struct LoadBits : OpRewritePattern<Load> {
  LoadBits(MLIRContext *context, bool convertsHalves)
      : OpRewritePattern<Load>(context), convertsHalves(convertsHalves) {}

  LogicalResult matchAndRewrite(Load op, PatternRewriter &rewriter) const override {
    Type type = op.getType(), bits = withElement(type, rewriter.getI16Type());
    if (!areBits(getElementTypeOrSelf(type), convertsHalves))
      return rewriter.notifyMatchFailure(op, "loads no bits");
    SmallVector<Value> operands(op->getOperands());
    for (Value &operand : operands) // what a masked load has elsewhere
      if (operand.getType() == type)
        operand = rewriter.create<arith::BitcastOp>(op.getLoc(), bits, operand);
    auto load = rewriter.create<Load>(op.getLoc(), TypeRange(bits), operands, op->getAttrs());
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, type, load->getResult(0));
    return success();
  }

  bool convertsHalves;
};

/// before: arith.remf %a, %b
/// after:  %a - trunc(%a / %b) * %b, in f64 for f32 and narrower
/// Exact for quotients below 2^29 of f32 operands, where the f64 quotient's truncation and the
/// product are exact; of f64 operands to the rounding of the quotient.
struct ExpandRemainder : OpRewritePattern<arith::RemFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::RemFOp op, PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type type = op.getType(), wide = withElement(type, b.getF64Type());
    bool narrow = !getElementTypeOrSelf(type).isF64();
    auto widen = [&](Value value) {
      return narrow ? Value(b.create<arith::ExtFOp>(wide, value)) : value;
    };
    Value dividend = widen(op.getLhs()), divisor = widen(op.getRhs());
    Value quotient = b.create<math::TruncOp>(b.create<arith::DivFOp>(dividend, divisor));
    Value rest = b.create<arith::SubFOp>(dividend, b.create<arith::MulFOp>(quotient, divisor));
    Value below =
        b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, b.create<math::AbsFOp>(dividend),
                                b.create<math::AbsFOp>(divisor)); // also of an infinite divisor
    rest = b.create<math::CopySignOp>(b.create<arith::SelectOp>(below, dividend, rest), dividend);
    rewriter.replaceOp(op, narrow ? Value(b.create<arith::TruncFOp>(type, rest)) : rest);
    return success();
  }
};

/// before: vector.create_mask %n : vector<8xi1>
/// after:  vector.create_mask min(max(%n, 0), 8)
/// The same mask, and from there on 32 bits are enough for the comparison, as its lowering then
/// takes (64-bit lanes would halve the vectors).
struct ClampMask : OpRewritePattern<vector::CreateMaskOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(vector::CreateMaskOp op, PatternRewriter &rewriter) const override {
    if (op->hasAttr(kClamped) || op.getType().getRank() != 1 || op.getType().isScalable())
      return rewriter.notifyMatchFailure(op, "clamped already, or not of one dimension");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value zero = b.create<arith::ConstantIndexOp>(0);
    Value lanes = b.create<arith::ConstantIndexOp>(op.getType().getDimSize(0));
    Value atLeast = b.create<arith::MaxSIOp>(op.getOperand(0), zero);
    auto clamped = b.create<vector::CreateMaskOp>(
        op.getType(), ValueRange(b.create<arith::MinSIOp>(atLeast, lanes)));
    clamped->setAttr(kClamped, rewriter.getUnitAttr());
    rewriter.replaceOp(op, clamped);
    return success();
  }

  static constexpr char kClamped[] = "clamped";
};

void addElementaryFunctions(RewritePatternSet &patterns, const Cpu &machine) {
  populateExpandTanPattern(patterns);
  populateExpandSinhPattern(patterns);
  populateExpandCoshPattern(patterns);
  populateExpandAsinhPattern(patterns);
  populateExpandAcoshPattern(patterns);
  populateExpandAtanhPattern(patterns);
  populateExpandExp2FPattern(patterns);
  populateExpandPowFPattern(patterns);
  populateExpandFPowIPattern(patterns);
  populateExpandRoundFPattern(patterns);
  populateExpandRsqrtPattern(patterns);
  MathPolynomialApproximationOptions options;
  options.enableAvx2 = false; // its rsqrt needs a dialect of its own, and is less exact
  populateMathPolynomialApproximationPatterns(patterns, options);
  if (!machine.fusesMultiplyAdds())
    populateExpandFmaFPattern(patterns);
}

void addVectorOperations(RewritePatternSet &patterns) {
  using namespace vector;
  populateVectorToVectorCanonicalizationPatterns(patterns);
  populateVectorBroadcastLoweringPatterns(patterns);
  populateVectorContractLoweringPatterns(
      patterns,
      VectorTransformsOptions().setVectorTransformsOptions(VectorContractLowering::OuterProduct));
  populateVectorOuterProductLoweringPatterns(patterns);
  populateVectorMultiReductionLoweringPatterns(patterns,
                                               VectorMultiReductionLowering::InnerParallel);
  populateVectorMaskOpLoweringPatterns(patterns);
  populateVectorShapeCastLoweringPatterns(patterns);
  populateVectorInterleaveLoweringPatterns(patterns);
  populateVectorBitCastLoweringPatterns(patterns);
  populateVectorGatherLoweringPatterns(patterns);
  populateVectorScanLoweringPatterns(patterns);
  populateVectorTransposeLoweringPatterns(patterns, VectorTransformsOptions());
  populateVectorTransferPermutationMapLoweringPatterns(patterns);
  populateVectorTransferLoweringPatterns(patterns, /*maxTransferRank=*/1);
  populateVectorMaskLoweringPatternsForSideEffectingOps(patterns);
  populateVectorInsertExtractStridedSliceTransforms(patterns);
}

/// Unrolls the small inner loops of constant extent (windows, group members), innermost first, so
/// that the loop around them is one that LLVM can vectorise. LLVM's own unrolling before
/// vectorisation is switched off (Codegen.cpp): it also unrolls rows of 24 elements, which then
/// can't become vectors.
void unrollSmallLoops(ModuleOp module) {
  constexpr int64_t kMaxTrips = 8, kMaxOperations = 400;
  module.walk([&](scf::ForOp loop) {
    auto begin = getConstantIntValue(loop.getLowerBound()),
         end = getConstantIntValue(loop.getUpperBound()),
         step = getConstantIntValue(loop.getStep());
    if (!begin || !end || !step || *step <= 0 || *end <= *begin ||
        !loop->getParentOfType<scf::ForOp>())
      return;
    int64_t trips = llvm::divideCeil(*end - *begin, *step), operations = 0;
    loop.getBody()->walk([&](Operation *) { ++operations; });
    if (trips <= kMaxTrips && trips * operations <= kMaxOperations)
      (void)loopUnrollByFactor(loop, uint64_t(trips)); // where it refuses, the loop stays
  });
}

/// before: %p = arith.mulf %a, %b fastmath<contract>; arith.addf %p, %c fastmath<contract>
/// after:  math.fma %a, %b, %c
/// Left to LLVM, whether they fuse depends on what else uses the product: the same element would
/// then be rounded once in one kernel and twice in another. Sums whose order is free stay, since
/// LLVM vectorises them as sums.
void fuseMultiplyAdds(ModuleOp module) {
  auto flags = [](auto op) { return op.getFastmath(); };
  auto product = [&](Value value) {
    auto product = value.getDefiningOp<arith::MulFOp>();
    bool fuses = product && bitEnumContainsAll(flags(product), arith::FastMathFlags::contract);
    return fuses ? product : arith::MulFOp();
  };
  module.walk([&](arith::AddFOp sum) {
    Type element = getElementTypeOrSelf(sum.getType());
    if (flags(sum) != arith::FastMathFlags::contract || !(element.isF32() || element.isF64()))
      return;
    bool isLeft = bool(product(sum.getLhs()));
    auto factors = product(isLeft ? sum.getLhs() : sum.getRhs());
    if (!factors)
      return;
    OpBuilder builder(sum);
    Value fused = builder.create<math::FmaOp>(sum.getLoc(), factors.getLhs(), factors.getRhs(),
                                              isLeft ? sum.getRhs() : sum.getLhs());
    sum.replaceAllUsesWith(fused);
    sum.erase();
    if (factors.use_empty())
      factors.erase();
  });
}

Status apply(ModuleOp module, RewritePatternSet patterns, const char *what) {
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  if (failed(applyPatternsAndFoldGreedily(module, std::move(patterns), config)))
    return {StatusCode::Internal, std::string("the expansion of ") + what + " didn't end"};
  return {};
}

} // namespace

Status expandOperations(ModuleOp module, const Cpu &machine) {
  convertRounded(module, machine);
  RewritePatternSet scalar(module.getContext());
  addElementaryFunctions(scalar, machine);
  scalar.add<TruncateDoubleByOdd>(module.getContext(),
                                  /*benefit=*/2); // before bf16's own expansion
  scalar.add<TruncateExtended>(module.getContext(), /*benefit=*/3);
  if (module->hasAttr(kernel::kFlushesBfloatsAttribute) && machine.has("avx512bf16") &&
      machine.has("avx512vl"))
    scalar.add<TruncateByInstruction>(module.getContext(), /*benefit=*/2);
  scalar.add<ExpandRemainder>(module.getContext());
  scalar.add<StoreBits<LLVM::StoreOp>, StoreBits<LLVM::MaskedStoreOp>, LoadBits<LLVM::LoadOp>,
             LoadBits<LLVM::MaskedLoadOp>>(module.getContext(), machine.convertsHalves());
  arith::populateArithExpandOpsPatterns(scalar);
  addExtrema(scalar, machine);
  arith::populateExpandBFloat16Patterns(scalar);
  if (!machine.convertsHalves())
    addHalfExpansions(scalar);
  if (Status status = apply(module, std::move(scalar), "elementary functions"); !status.ok())
    return status;
  unrollSmallLoops(module);
  RewritePatternSet vectors(module.getContext());
  addVectorOperations(vectors);
  vectors.add<ClampMask>(module.getContext(), /*benefit=*/2);
  if (Status status = apply(module, std::move(vectors), "vector operations"); !status.ok())
    return status;
  RewritePatternSet masks(module.getContext());
  vector::populateVectorMaskMaterializationPatterns(masks, /*force32BitVectorIndices=*/true);
  masks.add<ClampMask>(module.getContext(), /*benefit=*/2);
  if (Status status = apply(module, std::move(masks), "masks"); !status.ok())
    return status;
  if (machine.fusesMultiplyAdds())
    fuseMultiplyAdds(module);
  return {};
}

} // namespace tensmith::targets::cpu
