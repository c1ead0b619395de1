// From stated extents to a branch before each access; see BoundsChecks.h.
#include "compiler/targets/cpu/codegen/BoundsChecks.h"

#include "compiler/kernel/EmittedKernel.h"
#include "runtime/KernelAbi.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace tensmith::targets::cpu {
namespace {

/// `bytes` from `pointer`, in the lanes of `mask` where there is one. Of a gather or scatter
/// `pointer` is a vector, and `bytes` are those of each lane.
struct Access {
  Instruction *instruction;
  Value *pointer;
  uint64_t bytes;
  Value *mask = nullptr;
};

class Checker {
public:
  explicit Checker(Function &function)
      : function_(function), layout_(function.getDataLayout()), builder_(function.getContext()) {}

  Status run() {
    for (Instruction &instruction : instructions(function_))
      if (auto *call = dyn_cast<CallInst>(&instruction); call && statesExtent(*call))
        extents_.insert({call->getArgOperand(0), {call->getArgOperand(1), extents_.size()}});
    if (extents_.empty())
      return {};
    SmallVector<Access> accesses;
    for (Instruction &instruction : instructions(function_))
      if (auto access = accessOf(instruction))
        accesses.push_back(*access);
    for (const Access &access : accesses)
      if (Status status = check(access); !status.ok())
        return status;
    return {};
  }

  static bool statesExtent(const CallInst &call) {
    const Function *callee = call.getCalledFunction();
    return callee && callee->getName() == kernel::kExtentSymbol;
  }

private:
  struct Extent {
    Value *bytes;
    size_t number;
  };

  std::optional<Access> accessOf(Instruction &instruction) {
    auto bytes = [&](Type *type) { return layout_.getTypeStoreSize(type).getFixedValue(); };
    if (auto *load = dyn_cast<LoadInst>(&instruction))
      return Access{load, load->getPointerOperand(), bytes(load->getType())};
    if (auto *store = dyn_cast<StoreInst>(&instruction))
      return Access{store, store->getPointerOperand(), bytes(store->getValueOperand()->getType())};
    auto *call = dyn_cast<IntrinsicInst>(&instruction);
    if (!call)
      return {};
    switch (call->getIntrinsicID()) {
    case Intrinsic::masked_load:
      return Access{call, call->getArgOperand(0), bytes(call->getType()), call->getArgOperand(2)};
    case Intrinsic::masked_store:
      return Access{call, call->getArgOperand(1), bytes(call->getArgOperand(0)->getType()),
                    call->getArgOperand(3)};
    case Intrinsic::masked_gather:
      return Access{call, call->getArgOperand(0), bytes(call->getType()->getScalarType()),
                    call->getArgOperand(2)};
    case Intrinsic::masked_scatter:
      return Access{call, call->getArgOperand(1),
                    bytes(call->getArgOperand(0)->getType()->getScalarType()),
                    call->getArgOperand(3)};
    default:
      return {};
    }
  }

  /// Where the pointer comes from: an argument, what a call gave, a variable. A template hides
  /// pointers from the optimiser in assembly without instructions, which gives back what it takes,
  /// in that order.
  static void collectBases(Value *pointer, SmallSetVector<Value *, 4> &seen,
                           SmallSetVector<Value *, 4> &bases) {
    if (!seen.insert(pointer))
      return;
    auto follow = [&](Value *next) { collectBases(next, seen, bases); };
    if (auto *element = dyn_cast<GEPOperator>(pointer))
      return follow(element->getPointerOperand());
    if (auto *select = dyn_cast<SelectInst>(pointer)) {
      follow(select->getTrueValue());
      return follow(select->getFalseValue());
    }
    if (auto *phi = dyn_cast<PHINode>(pointer)) {
      for_each(phi->incoming_values(), follow);
      return;
    }
    auto *part = dyn_cast<ExtractValueInst>(pointer);
    auto *call = dyn_cast<CallInst>(part ? part->getAggregateOperand() : pointer);
    if (call && call->isInlineAsm() && (!part || part->getNumIndices() == 1))
      return follow(call->getArgOperand(part ? part->getIndices()[0] : 0));
    bases.insert(pointer);
  }

  /// What the kernel was called with.
  bool isCall(Value *base) {
    auto *load = dyn_cast<LoadInst>(base);
    return load ? isOfCall(load->getPointerOperand()) : base == function_.getArg(0);
  }

  bool isOfCall(Value *pointer) {
    SmallSetVector<Value *, 4> seen, bases;
    collectBases(pointer, seen, bases);
    return all_of(bases, [&](Value *base) { return isCall(base); });
  }

  /// Stated, or that of a variable or table of the kernel's own.
  std::optional<Extent> extentOf(Value *base) {
    if (auto stated = extents_.find(base); stated != extents_.end())
      return stated->second;
    std::optional<TypeSize> size;
    if (auto *variable = dyn_cast<AllocaInst>(base))
      size = variable->getAllocationSize(layout_);
    else if (auto *table = dyn_cast<GlobalVariable>(base))
      size = layout_.getTypeAllocSize(table->getValueType());
    if (!size)
      return {};
    return Extent{builder_.getInt64(size->getFixedValue()), extents_.size()};
  }

  Status check(const Access &access) {
    SmallSetVector<Value *, 4> seen, bases;
    collectBases(access.pointer, seen, bases);
    if (all_of(bases, [&](Value *base) { return isCall(base); }))
      return {};
    builder_.SetInsertPoint(access.instruction);
    Value *inside = builder_.getFalse();
    size_t number = 0;
    for (Value *base : bases) {
      auto extent = extentOf(base);
      if (!extent)
        return noExtent(base);
      number = extent->number;
      inside = builder_.CreateOr(inside, isInside(access, base, extent->bytes));
    }
    refuseUnless(inside, access.instruction, number);
    return {};
  }

  static Status noExtent(Value *base) {
    std::string text = "an access goes to memory of which no extent is stated: ";
    raw_string_ostream out(text);
    base->print(out);
    return {StatusCode::Internal, text};
  }

  Value *isInside(const Access &access, Value *base, Value *extent) {
    if (auto *pointers = dyn_cast<FixedVectorType>(access.pointer->getType())) {
      Value *inside = builder_.getTrue();
      for (uint64_t lane = 0; lane < pointers->getNumElements(); ++lane) {
        Value *off = builder_.CreateNot(builder_.CreateExtractElement(access.mask, lane));
        Value *pointer = builder_.CreateExtractElement(access.pointer, lane);
        Value *there = isInside(pointer, builder_.getInt64(access.bytes), base, extent);
        inside = builder_.CreateAnd(inside, builder_.CreateOr(off, there));
      }
      return inside;
    }
    if (!access.mask)
      return isInside(access.pointer, builder_.getInt64(access.bytes), base, extent);
    uint64_t lanes = cast<FixedVectorType>(access.mask->getType())->getNumElements();
    Value *bits = builder_.CreateZExtOrTrunc(
        builder_.CreateBitCast(access.mask, builder_.getIntNTy(unsigned(lanes))),
        builder_.getInt64Ty());
    Value *none = builder_.CreateICmpEQ(bits, builder_.getInt64(0));
    Value *first = builder_.CreateBinaryIntrinsic(Intrinsic::cttz, bits, builder_.getFalse());
    Value *behind = builder_.CreateSub(
        builder_.getInt64(64),
        builder_.CreateBinaryIntrinsic(Intrinsic::ctlz, bits, builder_.getFalse()));
    Value *lane = builder_.getInt64(access.bytes / lanes);
    Value *begin = builder_.CreatePtrAdd(access.pointer, builder_.CreateMul(first, lane));
    Value *bytes = builder_.CreateMul(builder_.CreateSub(behind, first), lane);
    return builder_.CreateOr(none, isInside(begin, bytes, base, extent));
  }

  /// Neither the offset nor its end is taken for small where they wrap around.
  Value *isInside(Value *pointer, Value *bytes, Value *base, Value *extent) {
    Value *offset = builder_.CreateSub(builder_.CreatePtrToInt(pointer, builder_.getInt64Ty()),
                                       builder_.CreatePtrToInt(base, builder_.getInt64Ty()));
    return builder_.CreateAnd(builder_.CreateICmpULE(offset, extent),
                              builder_.CreateICmpULE(bytes, builder_.CreateSub(extent, offset)));
  }

  void refuseUnless(Value *inside, Instruction *instruction, size_t number) {
    Instruction *end = SplitBlockAndInsertIfThen(builder_.CreateNot(inside), instruction,
                                                 /*Unreachable=*/true);
    builder_.SetInsertPoint(end);
    Value *call = function_.getArg(0);
    auto field = [&](Value *base, size_t offset) { // on this machine
      Value *place =
          builder_.CreateConstGEP1_64(builder_.getPtrTy(), base, offset / sizeof(void *));
      return builder_.CreateLoad(builder_.getPtrTy(), place);
    };
    Value *fail =
        field(field(call, offsetof(TensmithCall, services)), offsetof(TensmithServices, fail));
    auto *type = FunctionType::get(
        builder_.getInt32Ty(), {builder_.getPtrTy(), builder_.getInt32Ty(), builder_.getInt64Ty()},
        /*isVarArg=*/false);
    builder_.CreateCall(
        type, fail,
        {call, builder_.getInt32(uint32_t(TENSMITH_FAIL_OUTSIDE)), builder_.getInt64(number)});
    builder_.CreateRetVoid();
    end->eraseFromParent();
  }

  Function &function_;
  const DataLayout &layout_;
  IRBuilder<> builder_;
  SmallMapVector<Value *, Extent, 8> extents_;
};

} // namespace

Result<bool> checkBounds(Module &module) {
  Function *extent = module.getFunction(kernel::kExtentSymbol);
  if (!extent)
    return false;
  for (Function &function : module)
    if (!function.isDeclaration())
      if (Status status = Checker(function).run(); !status.ok())
        return status;
  for (User *call : make_early_inc_range(extent->users()))
    cast<Instruction>(call)->eraseFromParent();
  extent->eraseFromParent();
  return true;
}

} // namespace tensmith::targets::cpu
