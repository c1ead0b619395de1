// The functions and sequences that take the place of calls; see LibraryCalls.h.
#include "compiler/targets/cpu/codegen/LibraryCalls.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/IntegerDivision.h"

using namespace llvm;

namespace tensmith::targets::cpu {
namespace {

bool isWide(const Value *value) { return value->getType()->getScalarType()->isIntegerTy(64); }

bool isDivision(const Instruction &instruction) {
  return instruction.isIntDivRem() && isWide(&instruction);
}

bool isConversion(const Instruction &instruction) {
  bool toFloat = isa<SIToFPInst, UIToFPInst>(instruction) && isWide(instruction.getOperand(0));
  return toFloat || (isa<FPToSIInst, FPToUIInst>(instruction) && isWide(&instruction));
}

bool isRounding(const Instruction &instruction) {
  auto *call = dyn_cast<IntrinsicInst>(&instruction);
  if (!call)
    return false;
  switch (call->getIntrinsicID()) {
  case Intrinsic::floor:
  case Intrinsic::ceil:
  case Intrinsic::trunc:
  case Intrinsic::rint:
  case Intrinsic::nearbyint:
  case Intrinsic::roundeven:
  case Intrinsic::round:
    return true;
  default:
    return false;
  }
}

class Replacer {
public:
  explicit Replacer(Module &module) : module_(module), builder_(module.getContext()) {}

  void replace(Instruction &instruction) {
    builder_.SetInsertPoint(&instruction);
    Value *result =
        isRounding(instruction) ? rounded(cast<IntrinsicInst>(instruction)) : byLanes(instruction);
    instruction.replaceAllUsesWith(result);
    instruction.eraseFromParent();
  }

private:
  Value *byLanes(Instruction &instruction) {
    auto *vector = dyn_cast<FixedVectorType>(instruction.getType());
    if (!vector)
      return scalar(instruction, SmallVector<Value *, 2>(instruction.operands()));
    Value *result = PoisonValue::get(vector);
    for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
      SmallVector<Value *, 2> operands;
      for (Value *operand : instruction.operands())
        operands.push_back(builder_.CreateExtractElement(operand, uint64_t(lane)));
      result = builder_.CreateInsertElement(result, scalar(instruction, operands), uint64_t(lane));
    }
    return result;
  }

  Value *scalar(Instruction &instruction, ArrayRef<Value *> operands) {
    Type *type = instruction.getType()->getScalarType();
    if (isDivision(instruction))
      return divided(cast<BinaryOperator>(instruction).getOpcode(), operands[0], operands[1]);
    bool isSigned = isa<SIToFPInst, FPToSIInst>(instruction);
    return isa<SIToFPInst, UIToFPInst>(instruction) ? toFloat(operands[0], isSigned, type)
                                                    : toInteger(operands[0], isSigned);
  }

  Value *divided(Instruction::BinaryOps kind, Value *a, Value *b) {
    // Shifts and masks, which LLVM makes of it.
    if (auto *known = dyn_cast<ConstantInt>(b); known && known->getValue().isPowerOf2())
      return builder_.CreateBinOp(kind, a, b);
    return builder_.CreateCall(divider(kind), {a, b});
  }

  Function *divider(Instruction::BinaryOps kind) {
    Function *&function = dividers_[kind];
    if (function)
      return function;
    const Function &caller = *builder_.GetInsertBlock()->getParent();
    std::string name =
        caller.getName().split('.').first.str() + "." + Instruction::getOpcodeName(kind);
    IRBuilder<>::InsertPointGuard guard(builder_);
    Type *wide = builder_.getInt64Ty(), *narrow = builder_.getInt32Ty();
    function = Function::Create(FunctionType::get(wide, {wide, wide}, /*isVarArg=*/false),
                                GlobalValue::InternalLinkage, name, module_);
    function->setDSOLocal(true);
    function->addFnAttrs(AttrBuilder(module_.getContext(), caller.getAttributes().getFnAttrs()));
    auto block = [&] { return BasicBlock::Create(module_.getContext(), "", function); };
    BasicBlock *entry = block(), *fits = block(), *exceeds = block();
    Value *a = function->getArg(0), *b = function->getArg(1);
    builder_.SetInsertPoint(entry);
    Value *upper = builder_.CreateLShr(builder_.CreateOr(a, b), 32);
    builder_.CreateCondBr(builder_.CreateIsNull(upper), fits, exceeds);
    builder_.SetInsertPoint(fits);
    bool isRemainder = kind == Instruction::SRem || kind == Instruction::URem;
    Value *small =
        builder_.CreateBinOp(isRemainder ? Instruction::URem : Instruction::UDiv,
                             builder_.CreateTrunc(a, narrow), builder_.CreateTrunc(b, narrow));
    builder_.CreateRet(builder_.CreateZExt(small, wide));
    builder_.SetInsertPoint(exceeds);
    Value *whole = builder_.CreateBinOp(kind, a, b);
    builder_.CreateRet(whole);
    if (isRemainder)
      expandRemainder(cast<BinaryOperator>(whole));
    else
      expandDivision(cast<BinaryOperator>(whole));
    return function;
  }

  Value *constant(double value) { return ConstantFP::get(builder_.getDoubleTy(), value); }

  Value *toFloat(Value *value, bool isSigned, Type *type) {
    constexpr uint64_t kDropped = (1 << 11) - 1; // bits that a double can't hold of all 64
    Value *negative = builder_.CreateICmpSLT(value, builder_.getInt64(0));
    Value *size = value;
    if (isSigned)
      size = builder_.CreateSelect(negative, builder_.CreateNeg(value), value);
    if (!type->isDoubleTy()) {
      Value *large = builder_.CreateICmpUGE(size, builder_.getInt64(uint64_t(1) << 53));
      Value *dropped = builder_.CreateAnd(size, kDropped);
      Value *sticky = builder_.CreateZExt(builder_.CreateIsNotNull(dropped), size->getType());
      Value *odd =
          builder_.CreateOr(builder_.CreateAnd(size, ~kDropped), builder_.CreateShl(sticky, 11));
      size = builder_.CreateSelect(large, odd, size);
    }
    Type *half = builder_.getInt32Ty(), *real = builder_.getDoubleTy();
    Value *low = builder_.CreateUIToFP(builder_.CreateTrunc(size, half), real);
    Value *high =
        builder_.CreateUIToFP(builder_.CreateTrunc(builder_.CreateLShr(size, 32), half), real);
    Value *sum = builder_.CreateFAdd(builder_.CreateFMul(high, constant(0x1p32)), low);
    if (isSigned)
      sum = builder_.CreateSelect(negative, builder_.CreateFNeg(sum), sum);
    return builder_.CreateFPCast(sum, type);
  }

  Value *toInteger(Value *value, bool isSigned) {
    Type *half = builder_.getInt32Ty(), *wide = builder_.getInt64Ty();
    Value *real = builder_.CreateFPCast(value, builder_.getDoubleTy());
    Value *size = isSigned ? builder_.CreateUnaryIntrinsic(Intrinsic::fabs, real) : real;
    Value *high = builder_.CreateFPToUI(builder_.CreateFMul(size, constant(0x1p-32)), half);
    Value *above =
        builder_.CreateFMul(builder_.CreateUIToFP(high, size->getType()), constant(0x1p32));
    Value *low = builder_.CreateFPToUI(builder_.CreateFSub(size, above), half);
    Value *whole = builder_.CreateOr(builder_.CreateShl(builder_.CreateZExt(high, wide), 32),
                                     builder_.CreateZExt(low, wide));
    if (!isSigned)
      return whole;
    Value *negative = builder_.CreateFCmpOLT(real, constant(0));
    return builder_.CreateSelect(negative, builder_.CreateNeg(whole), whole);
  }

  Value *rounded(IntrinsicInst &call) {
    Value *x = call.getArgOperand(0);
    Type *type = x->getType();
    bool isDouble = type->getScalarType()->isDoubleTy();
    auto number = [&](double value) { return ConstantFP::get(type, value); };
    // As it stands, whatever the flags of the call allow.
    Value *whole = number(isDouble ? 0x1p52 : 0x1p23);
    Value *size = builder_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
    Value *even = builder_.CreateFSub(builder_.CreateFAdd(size, whole), whole);
    auto step = [&](Value *condition, Value *from, double by) {
      return builder_.CreateSelect(condition, builder_.CreateFAdd(from, number(by)), from);
    };
    auto withSign = [&](Value *value) {
      return builder_.CreateBinaryIntrinsic(Intrinsic::copysign, value, x);
    };
    Value *below = step(builder_.CreateFCmpOGT(even, size), even, -1); // towards zero
    Value *result = even;
    switch (call.getIntrinsicID()) {
    case Intrinsic::trunc:
      result = below;
      break;
    case Intrinsic::round:
      result =
          step(builder_.CreateFCmpOGE(builder_.CreateFSub(size, below), number(0.5)), below, 1);
      break;
    case Intrinsic::floor: {
      Value *nearest = withSign(even);
      result = step(builder_.CreateFCmpOGT(nearest, x), nearest, -1);
      break;
    }
    case Intrinsic::ceil: {
      Value *nearest = withSign(even);
      result = step(builder_.CreateFCmpOLT(nearest, x), nearest, 1);
      break;
    }
    default:
      break;
    }
    return builder_.CreateSelect(builder_.CreateFCmpOLT(size, whole), withSign(result), x);
  }

  Module &module_;
  IRBuilder<> builder_;
  DenseMap<unsigned, Function *> dividers_;
};

} // namespace

void replaceLibraryCalls(Module &module, const Cpu &machine) {
  if (Triple(machine.triple).getArch() != Triple::arm)
    return;
  bool rounds = machine.has("fp-armv8");
  SmallVector<Instruction *> calls;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (isDivision(instruction) || isConversion(instruction) ||
          (!rounds && isRounding(instruction)))
        calls.push_back(&instruction);
  Replacer replacer(module);
  for (Instruction *call : calls)
    replacer.replace(*call);
}

} // namespace tensmith::targets::cpu
