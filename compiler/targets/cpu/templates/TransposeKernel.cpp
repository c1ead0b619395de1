// Movements between dimensions, by squares in registers; see TransposeKernel.h.
//
// Loops over elements read or write a cache line for each of them. Here as many vectors as each has
// lanes are loaded along the dimension that lies together in memory, turned in registers by halves
// of halves (log n exchanges of each vector with another), and stored along the one that lies
// together in the result. Both may be several dimensions of the tensors: a window of 3 x 3 and its
// channels are one run of memory, of which each element goes to a line of its own. Windows that are
// shorter than a vector are loaded under a mask.
//
// Some squares' length of the run is passed for each group of rows, so that memory is read as a few
// streams, and what is written stays in the second-level cache until its lines are whole.
//
// Open sizes are taken for long ones. What is left of them behind whole vectors is a square of its
// own, whose number of rows or lines only the run tells.
#include "compiler/targets/cpu/templates/TransposeKernel.h"

#include "compiler/kernel/FlatElements.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Squares along the dimension that is loaded, in a work item.
static constexpr Choice itemSquares{"item_squares", 1, kAny};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::itemSquares};

/// Of an element: its code stands there for each line of each kind of square, whole and cut off.
constexpr double kMostAdditions = 32;
constexpr int64_t kSquaresTogether = 16; // unasked

/// The product of the dimensions' sizes; nothing where it is open.
std::optional<int64_t> extentOf(const StridedView &view, ArrayRef<unsigned> dims) {
  int64_t product = 1;
  for (unsigned dim : dims) {
    auto size = graph::constantOf(view.dims[dim].size);
    if (!size)
      return std::nullopt;
    product *= *size;
  }
  return product;
}

/// What only moves elements, behind element-wise operators of the result; null where there is none,
/// or more than one.
Value movedValue(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  Value moved;
  for (size_t next = 0; next < seen.size(); ++next) {
    Operation *op = seen[next].getDefiningOp();
    if (!op || isa<graph::ConstantOp>(op))
      continue;
    if (isa<graph::Elementwise>(op)) {
      seen.insert(op->operand_begin(), op->operand_end());
      continue;
    }
    if (moved)
      return {};
    moved = seen[next];
  }
  return moved;
}

bool isLittleCode(graph::KernelOp kernel) {
  double additions = 0;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (auto elementwise = dyn_cast<graph::Elementwise>(op))
      additions += double(elementwise.additions());
  return additions <= kMostAdditions;
}

/// Chooses disjoint dimensions to load along and to store along.
class LoopChoice {
public:
  LoopChoice(Transposition &turned, int64_t lanes)
      : turned_(turned), view_(turned.view), shapes_(turned.moved.getContext()), lanes_(lanes) {}

  /// False where squares would be mostly empty.
  bool run() {
    AffineExpr stride = shapes_.constant(1);
    for (const StridedView::Dim &dim : llvm::reverse(view_.dims)) {
      turned_.places.insert(turned_.places.begin(), {dim.size, stride});
      stride = shapes_.simplify(stride * dim.size);
    }
    turned_.offset = shapes_.constant(0);
    turned_.stored.push_back(view_.dims.size() - 1);
    while (loaded() < lanes_ && loadFurther())
      ;
    while (stored() < lanes_ && storeFurther())
      ;
    // A rest of a vector is a square of its own.
    while (loaded() % lanes_ && loadFurther())
      ;
    for (unsigned dim = 0; dim < view_.dims.size(); ++dim)
      if (!isTaken(dim))
        turned_.outer.push_back(dim);
    return !turned_.loaded.empty() &&
           4 * std::min(stored(), lanes_) * std::min(loaded(), lanes_) >= lanes_ * lanes_;
  }

private:
  /// An open size is as many as lanes. Nothing is taken in behind it: the places of a run's
  /// elements would be found by divisions.
  int64_t stored() const { return extentOf(view_, turned_.stored).value_or(lanes_); }
  int64_t loaded() const { return extentOf(view_, turned_.loaded).value_or(lanes_); }
  bool isTaken(unsigned dim) const {
    return llvm::is_contained(turned_.stored, dim) || llvm::is_contained(turned_.loaded, dim);
  }

  /// Takes in the dimension that goes on in memory where those loaded end.
  bool loadFurther() {
    auto length = extentOf(view_, turned_.loaded);
    for (unsigned dim = 0; length && dim < view_.dims.size(); ++dim) {
      bool isPanel = view_.columns && dim == view_.panelDim;
      const StridedView::Dim &next = view_.dims[dim];
      if (isPanel || isTaken(dim) || graph::constantOf(next.size) == 1 ||
          graph::constantOf(next.stride) != length)
        continue;
      turned_.loaded.insert(turned_.loaded.begin(), dim);
      return true;
    }
    return false;
  }
  bool storeFurther() {
    unsigned first = turned_.stored.front();
    if (first == 0 || isTaken(first - 1) || view_.columns)
      return false;
    turned_.stored.insert(turned_.stored.begin(), first - 1);
    return true;
  }

  Transposition &turned_;
  const StridedView &view_;
  graph::ShapeContext shapes_;
  int64_t lanes_;
};

/// What is loaded goes upwards through memory, whatever way the result has it.
void loadUpwards(Transposition &turned) {
  graph::ShapeContext shapes(turned.moved.getContext());
  for (unsigned dim : turned.loaded) {
    StridedView::Dim &from = turned.view.dims[dim], &to = turned.places[dim];
    if (!from.isReversed)
      continue;
    turned.view.offset = shapes.simplify(turned.view.offset - from.stride * (from.size - 1));
    turned.offset = shapes.simplify(turned.offset + to.stride * (to.size - 1));
    from.isReversed = false;
    to.isReversed = true;
  }
}

/// The expressions of a view as values.
class ViewValues {
public:
  struct Dim {
    Value size, stride;
    bool isReversed;
  };

  ViewValues(IndexMath &math, const SizeValues &sizes, ArrayRef<StringAttr> symbols)
      : math_(math), sizes_(sizes), symbols_(symbols) {}

  Value of(AffineExpr expression) { return sizeValue(math_, sizes_, symbols_, expression); }
  SmallVector<Dim> of(ArrayRef<StridedView::Dim> dims) {
    SmallVector<Dim> values;
    for (const StridedView::Dim &dim : dims)
      values.push_back({of(dim.size), of(dim.stride), dim.isReversed});
    return values;
  }
  Value extent(const StridedView &view, ArrayRef<unsigned> dims) {
    Value product = math_.constant(1);
    for (unsigned dim : dims)
      product = math_.mul(product, of(view.dims[dim].size));
    return product;
  }

private:
  IndexMath &math_;
  const SizeValues &sizes_;
  ArrayRef<StringAttr> symbols_;
};

class TransposeEmitter {
public:
  /// To be made in front of the loop over items.
  TransposeEmitter(ElementEmitter &emitter, graph::KernelOp kernel, const Transposition &turned,
                   int64_t lanes, int64_t squares, Value result)
      : emitter_(emitter), math_(emitter.math), turned_(turned), view_(turned.view), lanes_(lanes),
        squares_(squares), result_(result),
        yielded_(kernel.getBody().front().getTerminator()->getOperand(0)) {
    ViewValues values(math_, emitter.sizes, view_.symbols);
    sources_ = values.of(view_.dims);
    places_ = values.of(turned.places);
    firstSource_ = values.of(view_.offset);
    firstPlace_ = values.of(turned.offset);
    if (view_.columns)
      allColumns_ = values.of(view_.columns);
    columns_ = values.extent(view_, turned.stored);
    run_ = values.extent(view_, turned.loaded);
  }

  /// One item: some squares' length of the run, for one index of the outer dimensions.
  void emit(Value item) {
    SmallVector<Value> extents;
    for (unsigned dim : turned_.outer)
      extents.push_back(sources_[dim].size);
    Value length = math_.constant(squares_ * lanes_);
    extents.push_back(math_.ceilDiv(run_, length));
    SmallVector<Value> at = math_.delinear(item, extents);
    Value part = at.pop_back_val();
    from_ = firstSource_;
    to_ = firstPlace_;
    for (auto [dim, index] : llvm::zip_equal(turned_.outer, at)) {
      from_ = moved(from_, index, sources_[dim]);
      to_ = moved(to_, index, places_[dim]);
      if (view_.columns && dim == view_.panelDim)
        panel_ = index;
    }
    begin_ = math_.mul(part, length);
    end_ = math_.min(math_.add(begin_, length), run_);
    eachPart(columns_, math_.constant(0), columns_,
             [&](Value column, Value count) { emitColumns(column, count); });
  }

private:
  using Part = function_ref<void(Value, Value)>;

  /// Calls `part` with what is in [begin, end) of `size`, whole vectors and the rest of one at the
  /// end of it all.
  void eachPart(Value size, Value begin, Value end, Part part) {
    Value lanes = math_.constant(lanes_), whole = math_.mul(math_.div(size, lanes), lanes);
    Value rest = math_.sub(size, whole);
    if (constantIndex(whole) != 0)
      emitFor(math_, begin, math_.min(end, whole), lanes, [&](Value at) { part(at, lanes); });
    if (constantIndex(rest) != 0)
      emitIf(math_, math_.less(whole, end), [&] { part(whole, rest); });
  }

  void emitColumns(Value column, Value count) {
    auto squares = [&](Value known) {
      eachPart(run_, begin_, end_,
               [&](Value at, Value length) { emitSquare(column, count, at, length, known); });
    };
    if (!view_.columns)
      return squares({});
    Value first = panel_ ? math_.mul(panel_, columns_) : math_.constant(0);
    first = math_.add(first, column);
    emitIf(
        math_, math_.less(math_.add(first, lanes_ - 1), allColumns_), [&] { squares({}); },
        [&] { squares(first); });
  }

  /// `firstColumn`: the number of the first column, where some may be behind the last; or null.
  void emitSquare(Value column, Value count, Value at, Value length, Value firstColumn) {
    auto &builder = emitter_.builder();
    Type type = VectorType::get({lanes_}, builder.getF32Type());
    SmallVector<Value> rows;
    int64_t known = constantIndex(count).value_or(lanes_);
    for (int64_t row = 0; row < lanes_; ++row) {
      if (row >= known) {
        rows.push_back(
            builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type)));
        continue;
      }
      // Rows behind the last are that one again: a load that is masked everywhere is slow where its
      // address has no memory.
      Value number = math_.add(column, row), mask = below(length);
      if (!constantIndex(count))
        number = math_.min(number, math_.sub(columns_, math_.constant(1)));
      if (firstColumn) {
        Value absolute = math_.add(firstColumn, row);
        Value last = math_.sub(allColumns_, math_.constant(1));
        number = math_.add(column, math_.sub(math_.min(absolute, last), firstColumn));
        Value all = emitter_.splat(math_.less(absolute, allColumns_), lanes_);
        mask = mask ? builder.create<arith::AndIOp>(math_.location, mask, all) : all;
      }
      Value place = math_.add(from_, math_.add(offset(turned_.stored, sources_, number), at));
      FlatElements elements(emitter_, view_.source);
      Value numbers = elements.at(view_.source, place, lanes_, mask);
      rows.push_back(firstColumn ? zeroWithout(mask, numbers) : numbers);
    }
    SmallVector<Value> lines = transposedSquare(math_, rows);
    for (int64_t line = 0; line < constantIndex(length).value_or(lanes_); ++line) {
      auto store = [&] { storeLine(lines[line], math_.add(at, line), column, below(count)); };
      if (constantIndex(length))
        store();
      else
        emitIf(math_, math_.less(math_.constant(line), length), store);
    }
  }

  void storeLine(Value numbers, Value line, Value column, Value mask) {
    Value place = math_.add(math_.add(to_, offset(turned_.loaded, places_, line)), column);
    FlatElements elements(emitter_, yielded_);
    elements.define(turned_.moved, numbers);
    emitter_.store(result_, emitter_.builder().getF32Type(), place,
                   elements.at(yielded_, place, lanes_, mask), mask);
  }

  /// Of the lanes below `count`; null where that is all of them.
  Value below(Value count) {
    return constantIndex(count) == lanes_ ? Value() : emitter_.maskBelow(count, lanes_);
  }

  Value zeroWithout(Value mask, Value numbers) {
    auto &builder = emitter_.builder();
    Value zero =
        builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(numbers.getType()));
    return builder.create<arith::SelectOp>(math_.location, mask, numbers, zero);
  }

  Value moved(Value place, Value index, const ViewValues::Dim &dim) {
    Value by = math_.mul(index, dim.stride);
    return dim.isReversed ? math_.sub(place, by) : math_.add(place, by);
  }

  /// In memory or in the result, of the element with that number in some dimensions.
  Value offset(ArrayRef<unsigned> dims, ArrayRef<ViewValues::Dim> places, Value number) {
    SmallVector<Value> sizes;
    for (unsigned dim : dims)
      sizes.push_back(places[dim].size);
    Value sum = math_.constant(0);
    for (auto [dim, index] : llvm::zip_equal(dims, math_.delinear(number, sizes)))
      sum = moved(sum, index, places[dim]);
    return sum;
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  const Transposition &turned_;
  const StridedView &view_;
  int64_t lanes_, squares_;
  Value result_, yielded_;
  SmallVector<ViewValues::Dim> sources_, places_;
  Value firstSource_, firstPlace_, columns_, run_;
  Value allColumns_; // of a matrix whose last panel is cut off, or null
  Value from_, to_, panel_, begin_, end_;
};

} // namespace

SmallVector<Value> transposedSquare(IndexMath &math, SmallVector<Value> rows) {
  int64_t lanes = rows.size();
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    SmallVector<int64_t> upper, lower;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      bool isOwn = (lane & half) == 0;
      upper.push_back(isOwn ? lane : lanes + lane - half);
      lower.push_back(isOwn ? lane + half : lanes + lane);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      if (i & half)
        continue;
      Value a = rows[i], b = rows[i + half];
      rows[i] = math.builder.create<vector::ShuffleOp>(math.location, a, b, upper);
      rows[i + half] = math.builder.create<vector::ShuffleOp>(math.location, a, b, lower);
    }
  }
  return rows;
}

std::optional<Transposition> matchTransposition(graph::KernelOp kernel, const Machine &machine) {
  int64_t lanes = machine.lanes(sizeof(float));
  Value yielded = kernel.getBody().front().getTerminator()->getOperand(0);
  auto type = cast<RankedTensorType>(yielded.getType());
  if (kernel->getNumResults() != 1 ||
      (type.hasStaticShape() && type.getNumElements() < lanes * lanes) || !isLittleCode(kernel))
    return std::nullopt;
  Transposition turned;
  turned.moved = movedValue(yielded);
  auto view = turned.moved ? stridedView(turned.moved) : std::nullopt;
  if (!view || view->dims.size() < 2 || !FlatElements::areKnown(yielded, yielded, turned.moved) ||
      !FlatElements::areKnown(view->source, view->source))
    return std::nullopt;
  turned.view = *view;
  if (!LoopChoice(turned, lanes).run())
    return std::nullopt;
  loadUpwards(turned);
  return turned;
}

static KernelParts transposeParts(graph::KernelOp kernel, const Transposition &turned,
                                  const Machine &machine, const Point &asked) {
  KernelParts parts;
  int64_t lanes = machine.lanes(sizeof(float));
  int64_t squares = asked[choice::itemSquares].value_or(kSquaresTogether);
  parts.summary = "squares of " + std::to_string(lanes);
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    ViewValues values(math, sizes, turned.view.symbols);
    Value length = math.constant(squares * lanes);
    Value run = values.extent(turned.view, turned.loaded);
    Value count = math.mul(values.extent(turned.view, turned.outer), math.ceilDiv(run, length));
    Value vectors =
        math.div(math.mul(values.extent(turned.view, turned.stored), math.min(run, length)),
                 math.constant(lanes));
    Point chosen;
    chosen.set(choice::itemSquares, squares);
    return {count, grainOf(math, math.max(math.mul(vectors, 8), math.constant(1))), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    TransposeEmitter code(emitter, kernel, turned, lanes, squares, results[0]);
    emitFor(emitter.math, begin, end, emitter.math.constant(1),
            [&](Value item) { code.emit(item); });
  };
  return parts;
}

const Template kTransposition = {
    .name = "transposition",
    .takes = [](graph::KernelOp kernel, Operation *,
                const Machine &machine) { return matchTransposition(kernel, machine).has_value(); },
    .parts =
        [](graph::KernelOp kernel, Operation *, const Machine &machine, const Point &asked) {
          return transposeParts(kernel, *matchTransposition(kernel, machine), machine, asked);
        },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *, const Machine &,
                Space &space) { space.addDoubling(choice::itemSquares, 64); },
};

} // namespace tensmith::kernel
