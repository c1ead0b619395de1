// The sequences that take the place of conversions; see ByteConversions.h.
#include "compiler/targets/cpu/codegen/ByteConversions.h"

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;
using namespace llvm::PatternMatch;

namespace tensmith::targets::cpu {
namespace {

constexpr unsigned kVectorBits = 128;

/// Whether it is a vector of such numbers, and their count fills whole vectors of `filled` bits a
/// lane.
bool isWhole(const Type *type, unsigned bits, unsigned filled) {
  auto *vector = dyn_cast<FixedVectorType>(type);
  return vector && vector->getElementType()->isIntegerTy(bits) &&
         vector->getNumElements() * filled % kVectorBits == 0;
}

/// A number that is clamped, and the least and largest that it may be then.
struct Clamp {
  Value *number;
  int64_t low, high;
};

Clamp clampOf(Value *value) {
  unsigned bits = value->getType()->getScalarSizeInBits();
  Value *inner;
  const APInt *bound;
  auto limited = [&](auto limit) {
    Clamp clamp = clampOf(inner);
    int64_t to = bound->getSExtValue();
    return Clamp{clamp.number, limit(clamp.low, to), limit(clamp.high, to)};
  };
  auto least = [](int64_t a, int64_t b) { return std::min(a, b); };
  auto most = [](int64_t a, int64_t b) { return std::max(a, b); };
  if (match(value, m_SMax(m_Value(inner), m_APInt(bound))))
    return limited(most);
  if (match(value, m_SMin(m_Value(inner), m_APInt(bound))))
    return limited(least);
  // Of what is at least 0 that is the same.
  if (match(value, m_UMin(m_Value(inner), m_APInt(bound))) && bound->isNonNegative() &&
      clampOf(inner).low >= 0)
    return limited(least);
  return {value, minIntN(bits), maxIntN(bits)};
}

/// before: %b = trunc (smin (smax %x, 0), 255) : <16 x i32> to <16 x i8>
/// after:  sqxtun of pairs of sqxtn of the four quarters of %x
/// Bounds within those of the narrow type, with a sign or without, are what these saturate to.
void narrow(TruncInst &cut) {
  unsigned from = cut.getOperand(0)->getType()->getScalarSizeInBits();
  unsigned to = cut.getType()->getScalarSizeInBits();
  bool fits = (to == 8 || to == 16) && (from == 16 || from == 32) && from > to;
  if (!fits || !isWhole(cut.getType(), to, 2 * to))
    return;
  Clamp clamp = clampOf(cut.getOperand(0));
  bool isSigned = clamp.low >= minIntN(to) && clamp.high <= maxIntN(to);
  if (!isSigned && !(clamp.low >= 0 && clamp.high <= int64_t(maxUIntN(to))))
    return;
  IRBuilder<> builder(&cut);
  unsigned lanes = kVectorBits / from;
  SmallVector<Value *> parts;
  for (unsigned lane = 0; lane < cast<FixedVectorType>(cut.getType())->getNumElements();
       lane += lanes)
    parts.push_back(
        builder.CreateShuffleVector(clamp.number, createSequentialMask(lane, lanes, 0)));
  for (unsigned bits = from; bits > to; bits /= 2, lanes *= 2) {
    bool isLast = bits == 2 * to;
    Type *half = FixedVectorType::get(builder.getIntNTy(bits / 2), lanes);
    for (Value *&part : parts)
      part = builder.CreateIntrinsic(isLast && !isSigned ? Intrinsic::aarch64_neon_sqxtun
                                                         : Intrinsic::aarch64_neon_sqxtn,
                                     {half}, {part});
    if (isLast)
      break;
    for (size_t pair = 0; pair < parts.size() / 2; ++pair)
      parts[pair] = concatenateVectors(builder, ArrayRef(parts).slice(2 * pair, 2));
    parts.resize(parts.size() / 2);
  }
  Value *result = concatenateVectors(builder, parts);
  auto keep = [&](Intrinsic::ID limit, int64_t bound) {
    result = builder.CreateBinaryIntrinsic(
        limit, result, ConstantInt::get(cut.getType(), uint64_t(bound), /*IsSigned=*/true));
  };
  if (clamp.low > (isSigned ? minIntN(to) : 0))
    keep(isSigned ? Intrinsic::smax : Intrinsic::umax, clamp.low);
  if (clamp.high < (isSigned ? maxIntN(to) : int64_t(maxUIntN(to))))
    keep(isSigned ? Intrinsic::smin : Intrinsic::umin, clamp.high);
  cut.replaceAllUsesWith(result);
}

/// The whole number that is added to all of what a conversion gives, if nothing else reads that.
std::optional<int64_t> addedTo(CastInst &conversion) {
  const APFloat *added;
  if (!conversion.hasOneUse() ||
      !match(conversion.user_back(), m_FAdd(m_Specific(&conversion), m_APFloat(added))) ||
      !added->isInteger())
    return std::nullopt;
  // Any byte and it are a number of 16 bits.
  APSInt number(16, /*isUnsigned=*/false);
  bool isExact;
  if (added->convertToInteger(number, APFloat::rmTowardZero, &isExact) != APFloat::opOK ||
      std::abs(number.getExtValue()) > maxIntN(16) - int64_t(maxUIntN(8)))
    return std::nullopt;
  return number.getExtValue();
}

/// before: %f = sitofp %b : <16 x i8> to <16 x float>; fadd %f, 128.0
/// after:  sitofp (sext (add (sext %b to i16), 128) to i32)
void widen(CastInst &conversion) {
  Value *bytes = conversion.getOperand(0);
  if (!isWhole(bytes->getType(), 8, 16) || !conversion.getType()->getScalarType()->isFloatTy())
    return;
  auto *vector = cast<VectorType>(bytes->getType());
  IRBuilder<> builder(&conversion);
  auto *words = VectorType::get(builder.getInt16Ty(), vector),
       *wide = VectorType::get(builder.getInt32Ty(), vector);
  bool isSigned = isa<SIToFPInst>(conversion);
  Value *number = builder.CreateIntCast(bytes, words, isSigned);
  Instruction *replaced = &conversion;
  if (auto added = addedTo(conversion)) {
    number = builder.CreateAdd(number, ConstantInt::get(words, uint64_t(*added), true));
    replaced = conversion.user_back();
    isSigned = true;
  }
  number = builder.CreateIntCast(number, wide, isSigned);
  replaced->replaceAllUsesWith(builder.CreateSIToFP(number, conversion.getType()));
  if (replaced != &conversion)
    replaced->eraseFromParent();
}

} // namespace

void convertBytesByHalves(Module &module) {
  SmallVector<CastInst *> conversions;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (isa<TruncInst, SIToFPInst, UIToFPInst>(instruction))
        conversions.push_back(cast<CastInst>(&instruction));
  for (CastInst *conversion : conversions)
    if (auto *cut = dyn_cast<TruncInst>(conversion))
      narrow(*cut);
    else
      widen(*conversion);
  SmallVector<WeakTrackingVH> unread(conversions.begin(), conversions.end());
  RecursivelyDeleteTriviallyDeadInstructionsPermissive(unread);
}

} // namespace tensmith::targets::cpu
