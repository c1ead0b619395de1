// Rows combined into a tensor at indices, as the gradient of an embedding into its table and the
// messages of a graph network: y = x, and y[index[i]] += updates[i]; or the product, the least, the
// greatest, or what was last.
//
// An item is a range of rows of the result, and goes through all indices for those that are its
// own: so threads never meet, and a row's sum has one order however many there are. Where the
// result is written over x (vm/InPlace.h), which the kernel finds by their addresses, only rows
// that indices name are touched.
//
// Of elements that have an index each, y[index[i, j], j] += updates[i, j], only those of one j
// meet. An item is a position in front of the axis, or a range of those behind it, and goes through
// its own part of the indices alone, in their order.
#include "compiler/targets/cpu/templates/ScatterKernel.h"

#include "reference/Indexing.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Ranges of rows that the result is cut into, at most: each goes through all indices.
static constexpr Choice ranges{"ranges", 1, 1024};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::ranges};

/// Ranges of rows: more would only go through the indices more often.
constexpr int64_t kRanges = 32; // unasked
/// Elements that are copied or combined in the time in which an index is passed by.
constexpr int64_t kElementsOfIndex = 8;
constexpr int64_t kLeastRange = 64;   // elements behind the axis
constexpr int64_t kWorkOfElement = 4; // to copy one, and to combine another into it

/// `dims` of the result, `places` of the indices. Short rows are fewer ranges, since each range
/// goes through all indices.
Value rowsPerItem(IndexMath &math, ArrayRef<Value> dims, ArrayRef<Value> places,
                  const Point &asked) {
  Value one = math.constant(1), inner = math.product(dims.drop_front());
  Value updates = math.max(math.product(places.drop_back()), one);
  Value work = math.mul(math.add(dims[0], updates), inner);
  Value worth = math.div(work, math.mul(updates, math.constant(kElementsOfIndex)));
  Value ranges = math.max(math.min(worth, math.constant(kRanges)), one);
  if (auto wanted = asked[choice::ranges])
    ranges = math.constant(*wanted);
  return math.max(math.ceilDiv(dims[0], ranges), one);
}

/// What both share: operands, an index that is checked, and how two elements become one.
class ScatterEmitter {
public:
  ScatterEmitter(ElementEmitter &emitter, Operation *root, Value result)
      : emitter_(emitter), math_(emitter.math), x_(root->getOperand(0)),
        indices_(root->getOperand(1)), updates_(root->getOperand(2)), result_(result),
        reduction_(root->getAttrOfType<StringAttr>("reduction").getValue()),
        element_(getElementTypeOrSelf(root->getResult(0).getType())),
        dims_(emitter.dims(root->getResult(0))), name_(root->getName().stripDialect().str()) {}

protected:
  /// Emits `copy` for an operand that the result isn't written over.
  void unlessInPlace(llvm::function_ref<void()> copy) {
    Value from = emitter_.buffer(x_);
    if (!from)
      return copy();
    Value apart = emitter_.builder().create<LLVM::ICmpOp>(math_.location, LLVM::ICmpPredicate::ne,
                                                          from, result_);
    emitIf(math_, apart, copy);
  }

  /// As it is given, and counted from the front: as large as the dimension or larger where it is
  /// outside.
  struct Index {
    Value given, resolved;
  };
  Index indexAt(ArrayRef<Value> position, Value size) {
    Value number = emitter_.element(indices_, Position{SmallVector<Value>(position)});
    Value given = emitter_.builder().create<arith::IndexCastOp>(
        math_.location, emitter_.builder().getIndexType(), number);
    // Unsigned, so that a negative number is a large one.
    return {given, math_.select(math_.less(given, size), given, math_.add(given, size))};
  }
  void check(Value isWithin, Value given) {
    emitter_.check(isWithin,
                   name_ + ": operand 'indices' " + reference::indexRefusal("{}", std::nullopt),
                   given);
  }

  void combine(Value offset, Position update) {
    Value given = emitter_.element(updates_, update);
    if (reduction_ != "none")
      given = combined(emitter_.load(result_, element_, offset), given);
    emitter_.store(result_, element_, offset, given);
  }

private:
  Value combined(Value a, Value b) {
    bool isFloat = isa<FloatType>(element_);
    if (reduction_ == "add")
      return isFloat ? create<arith::AddFOp>(a, b) : create<arith::AddIOp>(a, b);
    if (reduction_ == "mul")
      return isFloat ? create<arith::MulFOp>(a, b) : create<arith::MulIOp>(a, b);
    bool isLeast = reduction_ == "min";
    if (!isFloat)
      return isLeast ? create<arith::MinSIOp>(a, b) : create<arith::MaxSIOp>(a, b);
    // NaN stays, and comes; of equal numbers it is the later, as the reference has it.
    Value stays = create<arith::CmpFOp>(
        isLeast ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT, a, b);
    Value isNaN = create<arith::CmpFOp>(arith::CmpFPredicate::UNO, a, a);
    return create<arith::SelectOp>(create<arith::OrIOp>(stays, isNaN), a, b);
  }

  template <typename Op, typename... Operands> Value create(Operands... operands) {
    return emitter_.builder().create<Op>(math_.location, operands...);
  }

protected:
  ElementEmitter &emitter_;
  IndexMath &math_;
  Value x_, indices_, updates_, result_;
  StringRef reduction_;
  Type element_;
  SmallVector<Value> dims_;
  std::string name_; // of the operator, for messages
};

class RowEmitter : public ScatterEmitter {
public:
  RowEmitter(ElementEmitter &emitter, Operation *root, Value result)
      : ScatterEmitter(emitter, root, result), inner_(math_.product(ArrayRef(dims_).drop_front())) {
  }

  void emitRows(Value begin, Value end) {
    unlessInPlace([&] {
      emitFor(math_, begin, end, math_.constant(1), [&](Value row) {
        eachOfRow(row, [&](const Position &at, Value offset) {
          emitter_.store(result_, element_, offset, emitter_.element(x_, at));
        });
      });
    });
    SmallVector<Value> places = emitter_.dims(indices_);
    places.pop_back();
    emitFor(math_, math_.constant(0), math_.product(places), math_.constant(1), [&](Value number) {
      SmallVector<Value> place;
      if (!places.empty())
        place = math_.delinear(number, places);
      Value row = rowOf(place);
      emitIf(math_, math_.less(math_.sub(row, begin), math_.sub(end, begin)),
             [&] { combineRow(row, place); });
    });
  }

private:
  void eachOfRow(Value row, llvm::function_ref<void(const Position &, Value offset)> body) {
    Value start = math_.mul(row, inner_);
    emitFor(math_, math_.constant(0), inner_, math_.constant(1),
            [&](Value column) { body(inRow({row}, column), math_.add(start, column)); });
  }

  /// The position of an element of a row, whose own indices come first.
  Position inRow(ArrayRef<Value> row, Value column) {
    Position at{SmallVector<Value>(row)};
    if (dims_.size() > 1)
      at.indices.append(math_.delinear(column, ArrayRef(dims_).drop_front()));
    return at;
  }

  Value rowOf(ArrayRef<Value> place) {
    SmallVector<Value> indices(place);
    indices.push_back(math_.constant(0));
    auto [given, index] = indexAt(indices, dims_[0]);
    check(math_.less(index, dims_[0]), given);
    return index;
  }

  void combineRow(Value row, ArrayRef<Value> place) {
    eachOfRow(row, [&](const Position &at, Value offset) {
      Position update{SmallVector<Value>(place)};
      update.indices.append(at.indices.begin() + 1, at.indices.end());
      combine(offset, update);
    });
  }

  Value inner_; // elements of a row
};

/// How the elements are dealt out: the dimensions in front of the axis by positions, the one behind
/// it in ranges if those are few.
struct Shares {
  Value outer, ranges, block; // positions in front; ranges behind, of so many each
};

/// `dims` of the result.
Shares sharesOf(IndexMath &math, ArrayRef<Value> dims, size_t axis, const Point &asked) {
  Value one = math.constant(1), outer = math.product(dims.take_front(axis));
  if (axis + 1 == dims.size())
    return {outer, one, one};
  Value next = dims[axis + 1], rest = math.product(dims.drop_front(axis + 2));
  // A range is long enough that its lines of the cache are its own, nearly.
  Value least = math.ceilDiv(math.constant(kLeastRange), math.max(rest, one));
  Value most = math.max(math.div(next, least), one);
  Value wanted =
      math.ceilDiv(math.constant(asked[choice::ranges].value_or(kRanges)), math.max(outer, one));
  Value block = math.max(math.ceilDiv(next, math.min(most, wanted)), one);
  return {outer, math.ceilDiv(next, block), block};
}

class ElementScatter : public ScatterEmitter {
public:
  ElementScatter(ElementEmitter &emitter, graph::ScatterElementsOp root, const Point &asked,
                 Value result)
      : ScatterEmitter(emitter, root, result), axis_(size_t(root.getAxis())),
        shares_(sharesOf(math_, dims_, axis_, asked)), places_(emitter.dims(indices_)) {
    Value stride = math_.constant(1);
    strides_.resize(dims_.size());
    for (size_t dim = dims_.size(); dim-- > 0; stride = math_.mul(stride, dims_[dim]))
      strides_[dim] = stride;
  }

  void emit(Value item) {
    Value outer = math_.div(item, shares_.ranges);
    Value begin = math_.mul(math_.rem(item, shares_.ranges), shares_.block);
    SmallVector<Value> at;
    if (axis_ > 0)
      at = math_.delinear(outer, ArrayRef(dims_).take_front(axis_));
    bool isLast = axis_ + 1 == dims_.size();
    Value end = isLast ? Value() : math_.min(math_.add(begin, shares_.block), dims_[axis_ + 1]);
    unlessInPlace([&] { copy(at, begin, end); });
    // The indices may be fewer than the result's elements along each dimension.
    Value isThere = emitter_.builder().create<arith::ConstantIntOp>(math_.location, 1, 1);
    for (auto [index, size] : llvm::zip(at, places_))
      isThere = emitter_.builder().create<arith::AndIOp>(math_.location, isThere,
                                                         math_.less(index, size));
    if (!isLast)
      end = math_.min(end, places_[axis_ + 1]);
    emitIf(math_, isThere, [&] { each(places_, at, begin, end, [&] { combineAt(at); }); });
  }

private:
  /// Goes over the positions with those indices in front, of which those behind the axis are in
  /// [begin, end): `at` has all indices then.
  void each(ArrayRef<Value> sizes, SmallVector<Value> &at, Value begin, Value end,
            llvm::function_ref<void()> body) {
    if (at.size() == sizes.size())
      return body();
    bool isRange = at.size() == axis_ + 1;
    emitFor(math_, isRange ? begin : math_.constant(0), isRange ? end : sizes[at.size()],
            math_.constant(1), [&](Value index) {
              at.push_back(index);
              each(sizes, at, begin, end, body);
              at.pop_back();
            });
  }

  void copy(SmallVector<Value> &at, Value begin, Value end) {
    Value from = emitter_.buffer(x_);
    if (!from)
      return each(dims_, at, begin, end, [&] {
        emitter_.store(result_, element_, math_.linear(at, dims_), emitter_.element(x_, {at}));
      });
    // Runs of memory: all that is behind the axis, or of a range a run for each place along it.
    Value first = math_.constant(0);
    for (auto [index, stride] : llvm::zip(at, strides_))
      first = math_.add(first, math_.mul(index, stride));
    auto copyRun = [&](Value start, Value count) {
      emitFor(math_, start, math_.add(start, count), math_.constant(1), [&](Value offset) {
        emitter_.store(result_, element_, offset, emitter_.load(from, element_, offset));
      });
    };
    auto copyWhole = [&] { copyRun(first, math_.mul(dims_[axis_], strides_[axis_])); };
    if (!end)
      return copyWhole();
    emitIf(math_, math_.less(shares_.ranges, math_.constant(2)), copyWhole, [&] {
      Value rest = strides_[axis_ + 1], count = math_.mul(math_.sub(end, begin), rest);
      emitFor(math_, math_.constant(0), dims_[axis_], math_.constant(1), [&](Value place) {
        Value start = math_.add(first, math_.mul(place, strides_[axis_]));
        copyRun(math_.add(start, math_.mul(begin, rest)), count);
      });
    });
  }

  void combineAt(ArrayRef<Value> at) {
    Value size = dims_[axis_];
    Index index = indexAt(at, size);
    emitIf(
        math_, math_.less(index.resolved, size),
        [&] {
          SmallVector<Value> to(at);
          to[axis_] = index.resolved;
          Value offset = math_.constant(0);
          for (auto [place, stride] : llvm::zip_equal(to, strides_))
            offset = math_.add(offset, math_.mul(place, stride));
          combine(offset, Position{SmallVector<Value>(at)});
        },
        [&] {
          Value never = emitter_.builder().create<arith::ConstantIntOp>(math_.location, 0, 1);
          check(never, index.given);
        });
  }

  size_t axis_;
  Shares shares_;
  SmallVector<Value> places_, strides_; // sizes of the indices; steps in the result
};

KernelParts elementParts(graph::ScatterElementsOp root, const Point &asked) {
  KernelParts parts;
  parts.summary = "scatter";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    SmallVector<Value> dims = dimValues(math, sizes, root.getY().getType());
    auto axis = size_t(root.getAxis());
    Shares shares = sharesOf(math, dims, axis, asked);
    Value each = math.mul(dims[axis], math.product(ArrayRef(dims).drop_front(axis + 1)));
    each = math.div(math.mul(each, math.constant(kWorkOfElement)),
                    math.max(shares.ranges, math.constant(1)));
    return {math.mul(shares.outer, shares.ranges), grainOf(math, math.max(each, math.constant(1))),
            asked.of(kChoices)};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) mutable {
    ElementScatter scatter(emitter, root, asked, results[0]);
    emitFor(emitter.math, begin, end, emitter.math.constant(1),
            [&](Value item) { scatter.emit(item); });
  };
  return parts;
}

} // namespace

bool isScatterRoot(Operation *op) {
  if (!isa<graph::ScatterNDOp, graph::ScatterElementsOp>(op))
    return false;
  auto x = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto indices = dyn_cast<RankedTensorType>(op->getOperand(1).getType());
  auto updates = dyn_cast<RankedTensorType>(op->getOperand(2).getType());
  if (!x || !indices || !updates || x.getRank() == 0 || indices.getRank() == 0)
    return false;
  auto elements = dyn_cast<graph::ScatterElementsOp>(op);
  bool fits = elements ? int64_t(elements.getAxis()) >= 0 && indices.getRank() == x.getRank() &&
                             updates.getRank() == x.getRank()
                       : indices.getShape().back() == 1 &&
                             updates.getRank() == indices.getRank() - 1 + x.getRank() - 1;
  auto isWhole = [](Type type) { return type.isSignlessInteger(32) || type.isSignlessInteger(64); };
  Type element = x.getElementType();
  return fits && (element.isF32() || element.isF64() || isWhole(element)) &&
         isWhole(indices.getElementType());
}

static KernelParts scatterParts(Operation *root, const Point &asked) {
  if (auto elements = dyn_cast<graph::ScatterElementsOp>(root))
    return elementParts(elements, asked);
  KernelParts parts;
  parts.summary = "scatter";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    auto dims = dimValues(math, sizes, root->getResult(0).getType());
    auto places = dimValues(math, sizes, root->getOperand(1).getType());
    return {math.ceilDiv(dims[0], rowsPerItem(math, dims, places, asked)), math.constant(1),
            asked.of(kChoices)};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    auto dims = emitter.dims(root->getResult(0));
    Value rows = dims[0], block = rowsPerItem(math, dims, emitter.dims(root->getOperand(1)), asked);
    RowEmitter(emitter, root, results[0])
        .emitRows(math.mul(begin, block), math.min(math.mul(end, block), rows));
  };
  return parts;
}

const Template kScatter = {
    .name = "scatter",
    .mayBeRoot = isScatterRoot,
    .isRoot = isScatterRoot,
    .parts = [](graph::KernelOp, Operation *main, const Machine &,
                const Point &asked) { return scatterParts(main, asked); },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *, const Machine &,
                Space &space) { space.addDoubling(choice::ranges, 256); },
    .computesOperands = true,
    .movesOperands = true,
    .completesAtEnd = true,
    .storing = graph::Storing::Sums,
};

} // namespace tensmith::kernel
