// A small loop without leaving compiled code.
//
// A call of the body by the virtual machine takes half a microsecond, and some 0.2 more for each of
// its kernels; here an iteration costs what it computes. What is carried lies in registers where it
// is one element, and in the kernel's results otherwise. A value of the body is computed where it
// is used, if that is in one place and element by element; else into scratch, once an iteration:
//
//   carried = initial
//   while (iteration < trips && condition)
//     scratch = the body's values that are used more than once, or summed over
//     next, scanned[iteration] = what the body yields
//     carried = next
//
// Iterations follow one another, so the kernel is one work item. A loop that may run for long asks
// the runtime now and then whether it should go on.
#include "compiler/targets/cpu/templates/RecurrenceKernel.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Structure.h"
#include "compiler/kernel/WindowElement.h"
#include "runtime/KernelAbi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Elements of a row of the body's tensors that are straight code one after the other.
static constexpr Choice elementsTogether{"elements_together", 1, 8};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::elementsTogether};

/// Scalar operations of an iteration, above which kernels of their own do better: they work in
/// vectors and on several threads.
constexpr int64_t kMostWork = 8192;
/// Of a matrix product, whose elements are plain sums here.
constexpr int64_t kMostMultiplyAdds = 1024;
constexpr size_t kMostOperators = 256;
constexpr int64_t kAlignment = 64;
/// Iterations between two questions whether to go on; a power of two.
constexpr int64_t kPollEvery = 256;

// ---- which loops -----------------------------------------------------------------------------

bool hasKnownElements(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return ranked && ranked.hasStaticShape() && graph::kernelElementType(ranked.getElementType());
}

int64_t elements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

/// Scalar operations; nothing for an operator that can't be in such a kernel.
std::optional<int64_t> workOf(Operation *op, const Machine &machine) {
  if (isa<graph::NoneOp>(op))
    return 0;
  if (op->getNumRegions() || !llvm::all_of(op->getResultTypes(), hasKnownElements))
    return std::nullopt;
  if (isa<graph::ConstantOp>(op))
    return 0;
  if (!canEmit(op, machine))
    return std::nullopt;
  int64_t out = elements(op->getResult(0));
  if (out > kMostWork)
    return std::nullopt;
  if (auto product = dyn_cast<graph::MatMulOp>(op)) {
    int64_t depth = cast<RankedTensorType>(product.getA().getType()).getShape().back();
    if (ShapedType::isDynamic(depth) || depth > kMostMultiplyAdds || out > kMostMultiplyAdds ||
        out * depth > kMostMultiplyAdds)
      return std::nullopt;
    return out * depth;
  }
  auto indexed = dyn_cast<graph::Indexed>(op);
  if (isa<graph::Elementwise, graph::BroadcastOp>(op) || (indexed && indexed.isMovement()))
    return out;
  // A reduction reads its operand once; a window overlaps itself.
  if (!indexed || op->hasAttr("kernel") || !hasKnownElements(op->getOperand(0).getType()))
    return std::nullopt;
  return elements(op->getOperand(0));
}

bool isScalar(Value value, int64_t bits) {
  return hasKnownElements(value.getType()) && elements(value) == 1 &&
         getElementTypeOrSelf(value.getType()).isInteger(bits);
}
bool isScalarOrAbsent(Value value, int64_t bits) {
  return isa<NoneType>(value.getType()) || isScalar(value, bits);
}

/// Carried values keep their types, and scanned ones fill results of a known size.
bool typesFit(graph::LoopOp loop) {
  Block &body = loop.getBody().front();
  auto yielded = cast<graph::YieldOp>(body.getTerminator()).getValues();
  size_t carried = loop.getCarried().size();
  if (!graph::keepsTypes(loop) || !isScalarOrAbsent(loop.getTripCount(), 64) ||
      !isScalarOrAbsent(loop.getCondition(), 1) || !isScalar(body.getArgument(0), 64) ||
      !isScalar(body.getArgument(1), 1) || !isScalar(yielded[0], 1) ||
      !llvm::all_of(loop.getCarried().getTypes(), hasKnownElements))
    return false;
  bool scans = yielded.size() > 1 + carried;
  for (size_t i = carried; i < loop.getNumResults(); ++i) {
    auto result = dyn_cast<RankedTensorType>(loop.getResult(i).getType());
    if (!hasKnownElements(yielded[1 + i].getType()) || !result ||
        llvm::any_of(result.getShape().drop_front(), ShapedType::isDynamic))
      return false;
  }
  return !scans || graph::neverStops(loop);
}

// ---- its code --------------------------------------------------------------------------------

class RecurrenceEmitter {
public:
  RecurrenceEmitter(ElementEmitter &emitter, graph::LoopOp loop, ValueRange results,
                    int64_t together)
      : together_(together), emitter_(emitter), math_(emitter.math), builder_(emitter.builder()),
        loop_(loop), body_(loop.getBody().front()),
        yield_(cast<graph::YieldOp>(body_.getTerminator())), results_(results) {
    size_t count = loop.getCarried().size();
    carried_.assign(body_.args_begin() + 2, body_.args_end());
    next_.assign(yield_.getValues().begin() + 1, yield_.getValues().begin() + 1 + count);
    scanned_.assign(yield_.getValues().begin() + 1 + count, yield_.getValues().end());
    for (Operation &op : body_.without_terminator())
      for (Value result : op.getResults())
        if (!result.use_empty() && !isa<NoneType>(result.getType()) && needsBuffer(result))
          place(result);
    for (auto [argument, next] : llvm::zip_equal(carried_, next_))
      if (argument != next && elements(next) > 1 && !offsets_.contains(next)) {
        place(next);
        elsewhere_.insert(next);
      }
  }

  int64_t scratchBytes() const { return std::max(bytes_, kAlignment); }

  void emit(Value scratch) {
    scratch_ = scratch;
    SmallVector<Value> initial{integer(0), startCondition()};
    for (auto [number, argument] : llvm::enumerate(carried_)) {
      Value operand = loop_.getCarried()[number];
      if (elements(argument) == 1)
        initial.push_back(single(operand));
      else
        copy(operand, results_[number], math_.constant(0));
    }
    emitWhile(trips(), initial);
  }

private:
  /// Whether a value is computed into scratch, not where it is used.
  static bool needsBuffer(Value value) {
    Operation *op = value.getDefiningOp();
    if (elements(value) <= 1 || isa<graph::ConstantOp>(op))
      return false;
    // Twice where it is used twice would be exponential in a chain.
    if (!value.hasOneUse())
      return true;
    if (auto indexed = dyn_cast<graph::Indexed>(op); indexed && indexed.isMovement())
      return false;
    if (!isa<graph::Elementwise>(op))
      return true;
    Operation *user = *value.user_begin();
    if (isa<graph::YieldOp>(user))
      return false;
    auto own = cast<RankedTensorType>(value.getType());
    return !isa<graph::Elementwise>(user) ||
           cast<RankedTensorType>(user->getResult(0).getType()).getShape() != own.getShape();
  }

  void place(Value value) {
    offsets_[value] = bytes_;
    int64_t size = byteSize(graph::dataType(getElementTypeOrSelf(value.getType())));
    bytes_ += int64_t(llvm::alignTo(elements(value) * size, kAlignment));
  }

  Value inScratch(Value value) {
    Value offset = math_.toI64(math_.constant(offsets_.lookup(value)));
    return builder_.create<LLVM::GEPOp>(math_.location, scratch_.getType(), builder_.getI8Type(),
                                        scratch_, ValueRange{offset});
  }

  Value integer(int64_t value) {
    return builder_.create<arith::ConstantIntOp>(math_.location, value, 64);
  }
  Value truth() { return builder_.create<arith::ConstantIntOp>(math_.location, 1, 1); }

  Position origin(Value value) {
    return {
        SmallVector<Value>(cast<RankedTensorType>(value.getType()).getRank(), math_.constant(0))};
  }
  Value single(Value value) { return emitter_.element(value, origin(value)); }

  Value startCondition() {
    return isa<NoneType>(loop_.getCondition().getType()) ? truth() : single(loop_.getCondition());
  }

  /// As many as a scanned result has room for.
  Value trips() {
    Value most = isa<NoneType>(loop_.getTripCount().getType())
                     ? integer(std::numeric_limits<int64_t>::max())
                     : single(loop_.getTripCount());
    if (!scanned_.empty()) {
      Value room = math_.toI64(emitter_.dims(loop_.getResult(carried_.size()))[0]);
      most = builder_.create<arith::MaxSIOp>(math_.location, most, integer(0));
      emitter_.check(
          builder_.create<arith::CmpIOp>(math_.location, arith::CmpIPredicate::eq, most, room),
          "the loop's trips are not as many as its scanned results' type says");
      most = builder_.create<arith::MinSIOp>(math_.location, most, room);
    }
    return most;
  }

  void emitWhile(Value trips, ValueRange initial) {
    SmallVector<Type> types(initial.getTypes());
    SmallVector<Location> locations(types.size(), math_.location);
    auto loop = builder_.create<scf::WhileOp>(math_.location, types, initial);
    {
      OpBuilder::InsertionGuard guard(builder_);
      Block *before = builder_.createBlock(&loop.getBefore(), {}, types, locations);
      Value more = builder_.create<arith::CmpIOp>(math_.location, arith::CmpIPredicate::slt,
                                                  before->getArgument(0), trips);
      more = builder_.create<arith::AndIOp>(math_.location, more, before->getArgument(1));
      builder_.create<scf::ConditionOp>(math_.location, more, before->getArguments());
      Block *after = builder_.createBlock(&loop.getAfter(), {}, types, locations);
      builder_.create<scf::YieldOp>(math_.location, iteration(after->getArguments()));
    }
    size_t at = 2;
    for (auto [number, argument] : llvm::enumerate(carried_))
      if (elements(argument) == 1)
        emitter_.store(results_[number], getElementTypeOrSelf(argument.getType()),
                       math_.constant(0), loop.getResult(at++));
  }

  void defineScalar(Value value, Value scalar) {
    emitter_.define(value, [this, scalar](const Position &position) {
      return emitter_.splat(scalar, position.lanes);
    });
  }

  /// From (iteration, condition, single carried elements...) to the next ones.
  SmallVector<Value> iteration(ValueRange state) {
    Value number = state[0];
    defineScalar(body_.getArgument(0), number);
    defineScalar(body_.getArgument(1), truth());
    size_t at = 2;
    for (auto [result, argument] : llvm::zip_equal(results_.take_front(carried_.size()), carried_))
      if (elements(argument) == 1)
        defineScalar(argument, state[at++]);
      else
        emitter_.defineBuffer(argument, result);
    computeBody();
    SmallVector<Value> next{number, single(yield_.getValues()[0])};
    for (Value value : next_)
      if (elements(value) == 1)
        next.push_back(single(value));
    for (Value value : elsewhere_)
      copy(value, inScratch(value), math_.constant(0));
    storeScanned(number);
    for (auto [result, argument, value] :
         llvm::zip_equal(results_.take_front(carried_.size()), carried_, next_))
      if (elements(value) > 1 && argument != value)
        copyFromScratch(value, result);
    next[0] = builder_.create<arith::AddIOp>(math_.location, number, integer(1));
    next[1] = builder_.create<arith::AndIOp>(math_.location, next[1], goesOn(number));
    return next;
  }

  /// What isn't computed where it is used.
  void computeBody() {
    for (Operation &op : body_.without_terminator()) {
      if (isa<graph::ConstantOp, graph::NoneOp>(op))
        continue;
      for (Value result : op.getResults()) {
        if (result.use_empty() || elements(result) == 0)
          continue; // nothing asks for it
        if (elements(result) == 1)
          defineScalar(result, single(result));
        else if (needsBuffer(result))
          intoScratch(result);
      }
    }
  }

  void intoScratch(Value value) {
    Value buffer = inScratch(value);
    copy(value, buffer, math_.constant(0));
    emitter_.defineBuffer(value, buffer);
  }

  /// All elements of the value, to a buffer from element `first` on.
  void copy(Value value, Value buffer, Value first) {
    auto shape = cast<RankedTensorType>(value.getType()).getShape();
    Position position;
    nest(shape, position.indices, [&] {
      Value offset = math_.add(first, math_.linear(position.indices, emitter_.dims(value)));
      emitter_.store(buffer, getElementTypeOrSelf(value.getType()), offset,
                     emitter_.element(value, position));
    });
  }

  void nest(ArrayRef<int64_t> shape, SmallVector<Value> &indices, llvm::function_ref<void()> body) {
    if (indices.size() == shape.size())
      return body();
    auto at = [&](Value index) {
      indices.push_back(index);
      nest(shape, indices, body);
      indices.pop_back();
    };
    bool isRow = indices.size() + 1 == shape.size();
    int64_t size = shape[indices.size()], step = isRow ? together_ : 1, whole = size / step * step;
    emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(step),
            [&](Value first) {
              for (int64_t i = 0; i < step; ++i)
                at(math_.add(first, math_.constant(i)));
            });
    for (int64_t i = whole; i < size; ++i)
      at(math_.constant(i));
  }

  void copyFromScratch(Value value, Value result) {
    Type type = getElementTypeOrSelf(value.getType());
    Value source = inScratch(value);
    emitFor(math_, math_.constant(0), math_.constant(elements(value)), math_.constant(1),
            [&](Value offset) {
              emitter_.store(result, type, offset, emitter_.load(source, type, offset));
            });
  }

  void storeScanned(Value number) {
    Value row =
        builder_.create<arith::IndexCastOp>(math_.location, builder_.getIndexType(), number);
    for (auto [i, value] : llvm::enumerate(scanned_))
      copy(value, results_[carried_.size() + i], math_.mul(row, elements(value)));
  }

  Value goesOn(Value number) {
    auto loc = math_.location;
    Value position = builder_.create<arith::AndIOp>(loc, number, integer(kPollEvery - 1));
    Value due = builder_.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, position,
                                               integer(kPollEvery - 1));
    auto asked = builder_.create<scf::IfOp>(loc, builder_.getI1Type(), due, true);
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(asked.thenBlock());
    builder_.create<scf::YieldOp>(loc, poll());
    builder_.setInsertionPointToStart(asked.elseBlock());
    builder_.create<scf::YieldOp>(loc, truth());
    return asked.getResult(0);
  }

  Value poll() {
    auto loc = math_.location;
    Value services = loadPointerField(math_, emitter_.call, offsetof(TensmithCall, services));
    Value poll = loadPointerField(math_, services, offsetof(TensmithServices, poll));
    Type i32 = builder_.getI32Type();
    auto signature = LLVM::LLVMFunctionType::get(i32, {emitter_.call.getType()});
    Value answer =
        builder_.create<LLVM::CallOp>(loc, signature, ValueRange{poll, emitter_.call}).getResult();
    Value zero = builder_.create<arith::ConstantIntOp>(loc, 0, 32);
    return builder_.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, answer, zero);
  }

  int64_t together_;
  ElementEmitter &emitter_;
  IndexMath &math_;
  OpBuilder &builder_;
  graph::LoopOp loop_;
  Block &body_;
  graph::YieldOp yield_;
  ValueRange results_;
  SmallVector<Value> carried_, next_, scanned_; // in the body
  llvm::DenseMap<Value, int64_t> offsets_;      // in scratch, bytes
  /// Next values that computing the body leaves where they are: in another carried value's buffer,
  /// or to be computed where they are used.
  llvm::SetVector<Value> elsewhere_;
  int64_t bytes_ = 0;
  Value scratch_;
};

} // namespace

/// Whether the loop can be a kernel, and is better one than called for each iteration: each
/// operator of its body has code for single elements and a result of known size, and an iteration
/// is less work than calling its kernels.
static bool isRecurrence(graph::LoopOp loop, const Machine &machine) {
  Block &body = loop.getBody().front();
  if (!typesFit(loop) || body.getOperations().size() > kMostOperators)
    return false;
  int64_t total = 0;
  for (Operation &op : body.without_terminator()) {
    auto work = workOf(&op, machine);
    if (!work || *work > kMostWork || (total += *work) > kMostWork)
      return false;
  }
  return true;
}

static KernelParts recurrenceParts(graph::LoopOp loop, const Point &asked) {
  int64_t together = asked[choice::elementsTogether].value_or(1);
  KernelParts parts;
  parts.summary = "recurrence";
  parts.items = [=](IndexMath &math, const SizeValues &) -> WorkItems {
    Point chosen;
    chosen.set(choice::elementsTogether, together);
    return {math.constant(1), math.constant(1), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    RecurrenceEmitter recurrence(emitter, loop, results, together);
    Value scratch = emitScratch(emitter, math.constant(recurrence.scratchBytes()), begin, end);
    emitFor(math, begin, end, math.constant(1), [&](Value) { recurrence.emit(scratch); });
  };
  return parts;
}

/// Whether the kernel is the loop and gives what that gives.
static bool isWholeRecurrence(graph::KernelOp kernel, graph::LoopOp loop, const Machine &machine) {
  auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
  return isRecurrence(loop, machine) && loop.getNumResults() > 0 &&
         llvm::equal(yield.getValues(), loop.getResults()) &&
         llvm::equal(kernel.getResultTypes(), loop.getResultTypes());
}

const Template kRecurrence = {
    .name = "recurrence",
    .mayBeRoot = [](Operation *op) { return isa<graph::LoopOp>(op); },
    .isRoot = [](Operation *op) { return isa<graph::LoopOp>(op); },
    .parts = [](graph::KernelOp, Operation *main, const Machine &,
                const Point &asked) { return recurrenceParts(cast<graph::LoopOp>(main), asked); },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *, const Machine &,
                Space &space) { space.addDoubling(choice::elementsTogether, 8); },
    .distrusts = [](graph::KernelOp kernel, Operation *op, const Machine &machine) -> const char * {
      auto loop = dyn_cast<graph::LoopOp>(op);
      return loop && !isWholeRecurrence(kernel, loop, machine)
                 ? "its loop is none that a kernel can hold"
                 : nullptr;
    },
    .takesLoop = [](graph::LoopOp loop,
                    const Machine &machine) { return isRecurrence(loop, machine); },
};

} // namespace tensmith::kernel
