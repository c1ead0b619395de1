// A row is everything behind the dimensions before the axis. Of each input a row is one run of
// consecutive elements, and lands as one run in the result: vectors are copied, and what follows is
// applied on the way, to vectors too if a run lies along the last dimension.
//
// Where there are few rows, as along the first dimension, each is cut into pieces that go to
// different threads.
//
// Inputs are straight code one after the other, unless there are many of one type: those are a loop
// over a table of their numbers and places, so that code is as long as there are types.
#include "compiler/targets/cpu/templates/ConcatKernel.h"

#include "runtime/KernelAbi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Pieces that each row of the result is cut into, a work item each.
static constexpr Choice pieces{"pieces", 1, 256};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::pieces};

ValueRange yieldedBy(graph::KernelOp kernel) {
  return cast<graph::YieldOp>(kernel.getBody().front().getTerminator()).getValues();
}

/// Whether what follows, if anything does, is of elements that lie side by side in a run.
bool takesVectors(graph::KernelOp kernel, graph::ConcatOp root) {
  int64_t rank = cast<RankedTensorType>(root.getType()).getRank();
  return int64_t(root.getAxis()) + 1 == rank ||
         llvm::all_of(yieldedBy(kernel), [&](Value value) { return value == root.getY(); });
}

/// Inputs of one type from which on a loop copies them.
constexpr size_t kManyInputs = 16;

/// An input in the row: its memory, and the elements of the axis before it.
struct Part {
  Value input, memory, before;
};

class ConcatEmitter {
public:
  ConcatEmitter(ElementEmitter &emitter, graph::KernelOp kernel, graph::ConcatOp root,
                const Machine &machine, ValueRange results, int64_t pieces)
      : pieces_(pieces), emitter_(emitter), math_(emitter.math), kernel_(kernel), root_(root),
        results_(results), dims_(emitter.dims(root.getY())), axis_(root.getAxis()) {
    if (takesVectors(kernel, root))
      lanes_ = machine.lanes(sizeof(float));
  }

  void emitItem(Value item) {
    Value row = math_.div(item, math_.constant(pieces_));
    outer_ = math_.delinear(row, ArrayRef(dims_).take_front(axis_));
    Value inner = math_.product(ArrayRef(dims_).drop_front(axis_ + 1));
    assert(!kernel_.getPitch() || axis_ + 1 == dims_.size());
    Value length = kernel_.getPitch() ? pitchOf(emitter_, kernel_) : math_.mul(dims_[axis_], inner);
    Value start = math_.mul(row, length);
    findPiece(math_.rem(item, math_.constant(pieces_)), math_.mul(dims_[axis_], inner));
    auto emit = [&](Part part) {
      Value size = emitter_.dims(part.input)[axis_], before = math_.mul(part.before, inner);
      emitRun(part, row, math_.mul(size, inner), before, math_.add(start, before));
    };
    Value before = math_.constant(0);
    llvm::MapVector<Type, SmallVector<Part>> parts;
    for (Value input : root_.getInputs()) {
      parts[input.getType()].push_back({input, emitter_.buffer(input), before});
      before = math_.add(before, emitter_.dims(input)[axis_]);
    }
    for (auto &[_, same] : parts)
      if (same.size() >= kManyInputs && llvm::all_of(same, isPlaced))
        emitLoop(same, emit);
      else
        llvm::for_each(same, emit);
  }

private:
  /// Of a row of so many elements, from which one to which one an item has.
  void findPiece(Value piece, Value length) {
    if (pieces_ == 1)
      return;
    Value each = math_.ceilDiv(length, math_.constant(pieces_));
    begin_ = math_.mul(piece, each);
    end_ = math_.add(begin_, each);
  }

  /// Of a run that begins at `before` in the row: from the row's place on, within the run.
  Value inRun(Value place, Value before, Value length) {
    return math_.min(math_.sub(math_.max(place, before), before), length);
  }

  /// Whether its place is known, and may stand in a table.
  static bool isPlaced(const Part &part) { return constantIndex(part.before).has_value(); }

  /// for (i = 0; i < parts; ++i) emit({parts[0].input, operands[numbers[i]], places[i]})
  void emitLoop(ArrayRef<Part> parts, llvm::function_ref<void(Part)> emit) {
    SmallVector<int64_t> numbers, places;
    for (const Part &part : parts) {
      numbers.push_back(cast<BlockArgument>(part.input).getArgNumber());
      places.push_back(*constantIndex(part.before));
    }
    Value numberTable = table(numbers), placeTable = table(places);
    Type pointer = emitter_.call.getType();
    Value operands = loadPointerField(math_, emitter_.call, offsetof(TensmithCall, operands));
    emitFor(math_, math_.constant(0), math_.constant(int64_t(parts.size())), math_.constant(1),
            [&](Value i) {
              Value memory =
                  entry(operands, pointer, entry(numberTable, builder().getI64Type(), i));
              Value place = entry(placeTable, builder().getI64Type(), i);
              place = builder().create<arith::IndexCastOp>(math_.location, builder().getIndexType(),
                                                           place);
              emit({parts.front().input, memory, place});
            });
  }

  /// Numbers in the kernel's image.
  Value table(ArrayRef<int64_t> numbers) {
    auto module = builder().getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
    Type type = LLVM::LLVMArrayType::get(builder().getI64Type(), numbers.size());
    std::string name =
        (Twine(kKernelSymbol) + ".table" + Twine(llvm::range_size(module.getOps<LLVM::GlobalOp>())))
            .str();
    auto global = OpBuilder::atBlockBegin(module.getBody())
                      .create<LLVM::GlobalOp>(math_.location, type, /*isConstant=*/true,
                                              LLVM::Linkage::Internal, name,
                                              builder().getI64TensorAttr(numbers));
    return builder().create<LLVM::AddressOfOp>(math_.location, global);
  }

  Value entry(Value table, Type type, Value number) {
    Value at = builder().create<LLVM::GEPOp>(math_.location, table.getType(), type, table,
                                             ValueRange{math_.toI64(number)}, true);
    return builder().create<LLVM::LoadOp>(math_.location, type, at);
  }

  OpBuilder &builder() { return emitter_.builder(); }

  /// The input's elements in the row, of an item's piece, to the result from `to` on.
  void emitRun(const Part &part, Value row, Value length, Value before, Value to) {
    Value from = math_.mul(row, length);
    auto emit = [&](Value at, int64_t lanes, Value mask) {
      emitElements(part, math_.add(from, at), math_.add(to, at), at, lanes, mask);
    };
    if (pieces_ > 1)
      return emitRange(inRun(begin_, before, length), inRun(end_, before, length), emit);
    auto known = constantIndex(length);
    // A run that is shorter than a vector is left to LLVM.
    int64_t lanes = known && *known < lanes_ ? 1 : lanes_;
    Value whole = math_.mul(math_.div(length, math_.constant(lanes)), lanes);
    emitFor(math_, math_.constant(0), whole, math_.constant(lanes),
            [&](Value at) { emit(at, lanes, {}); });
    if (lanes == 1)
      return;
    if (!known)
      return emitIf(math_, math_.less(whole, length), [&] {
        emit(whole, lanes, emitter_.maskBelow(math_.sub(length, whole), lanes));
      });
    // A known rest is ever shorter vectors.
    for (int64_t at = *known / lanes * lanes; at < *known; at += lanes) {
      while (at + lanes > *known)
        lanes /= 2;
      emit(math_.constant(at), lanes, {});
    }
  }

  void emitRange(Value begin, Value end,
                 llvm::function_ref<void(Value at, int64_t lanes, Value mask)> emit) {
    Value whole = math_.div(math_.sub(math_.max(begin, end), begin), math_.constant(lanes_));
    whole = math_.add(begin, math_.mul(whole, lanes_));
    emitFor(math_, begin, whole, math_.constant(lanes_), [&](Value at) { emit(at, lanes_, {}); });
    if (lanes_ > 1)
      emitIf(math_, math_.less(whole, end),
             [&] { emit(whole, lanes_, emitter_.maskBelow(math_.sub(end, whole), lanes_)); });
  }

  /// So many elements of the run, from number `at` on.
  void emitElements(const Part &part, Value from, Value to, Value at, int64_t lanes, Value mask) {
    Type element = getElementTypeOrSelf(part.input.getType());
    Value read = emitter_.load(part.memory, element, from, lanes, mask);
    emitter_.define(root_.getY(), [read](const Position &) { return read; });
    Position position{outer_, lanes, mask};
    SmallVector<Value> rest = math_.delinear(at, ArrayRef(dims_).drop_front(axis_));
    rest[0] = math_.add(rest[0], part.before);
    position.indices.append(rest);
    for (auto [value, pointer] : llvm::zip_equal(yieldedBy(kernel_), results_))
      emitter_.store(pointer, getElementTypeOrSelf(value.getType()), to,
                     emitter_.element(value, position), mask);
  }

  int64_t pieces_;    // of a row
  Value begin_, end_; // of the item's piece
  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  graph::ConcatOp root_;
  ValueRange results_;
  SmallVector<Value> dims_, outer_;
  size_t axis_;
  int64_t lanes_ = 1; // elements at a time
};

} // namespace

bool isConcatRoot(Operation *op) {
  auto concat = dyn_cast<graph::ConcatOp>(op);
  return concat &&
         llvm::all_of(concat.getInputs(), [](Value input) { return isa<BlockArgument>(input); });
}

/// Unasked: as many as give all threads work, where the rows alone don't.
static int64_t piecesOf(graph::ConcatOp root) {
  constexpr int64_t kEnoughRows = 16, kItems = 32, kItemsOfOpenRows = 8, kLeastElements = 1 << 14;
  auto shape = cast<RankedTensorType>(root.getType()).getShape();
  auto outer = shape.take_front(root.getAxis()), inner = shape.drop_front(root.getAxis());
  if (llvm::any_of(outer, ShapedType::isDynamic))
    return 1;
  int64_t rows = ShapedType::getNumElements(outer);
  if (rows == 0 || rows >= kEnoughRows)
    return 1;
  if (llvm::any_of(inner, ShapedType::isDynamic))
    return root.getInputs().size() < kManyInputs ? llvm::divideCeil(kItemsOfOpenRows, rows) : 1;
  return std::clamp<int64_t>(ShapedType::getNumElements(inner) / kLeastElements, 1,
                             llvm::divideCeil(kItems, rows));
}

static KernelParts concatParts(graph::KernelOp kernel, graph::ConcatOp root, const Machine &machine,
                               const Point &asked) {
  int64_t pieces = asked[choice::pieces].value_or(piecesOf(root));
  KernelParts parts;
  parts.summary = takesVectors(kernel, root) ? "concat, by vectors" : "concat";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    SmallVector<Value> dims = dimValues(math, sizes, root.getType());
    size_t axis = root.getAxis();
    Value length = math.product(ArrayRef(dims).drop_front(axis));
    Point chosen;
    chosen.set(choice::pieces, pieces);
    return {math.mul(math.product(ArrayRef(dims).take_front(axis)), pieces),
            grainOf(math, math.ceilDiv(length, math.constant(pieces))), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    ConcatEmitter concat(emitter, kernel, root, machine, results, pieces);
    emitFor(emitter.math, begin, end, emitter.math.constant(1),
            [&](Value item) { concat.emitItem(item); });
  };
  return parts;
}

const Template kConcat = {
    .name = "concat",
    .mayBeRoot = [](Operation *op) { return isa<graph::ConcatOp>(op); },
    .isRoot = isConcatRoot,
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return concatParts(kernel, cast<graph::ConcatOp>(main), machine, asked);
        },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *, const Machine &,
                Space &space) { space.addDoubling(choice::pieces, 64); },
    // Along the last dimension, so that what it copies are pieces of rows.
    .storesAtPitch =
        [](Operation *main) {
          auto concat = cast<graph::ConcatOp>(main);
          return int64_t(concat.getAxis()) + 1 ==
                 cast<RankedTensorType>(concat.getType()).getRank();
        },
};

} // namespace tensmith::kernel
