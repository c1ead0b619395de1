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
#include "compiler/kernel/TransposeKernel.h"

#include "compiler/kernel/FlatElements.h"
#include "compiler/kernel/Work.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Of an element: its code stands there for each line of each kind of square, whole and cut off.
constexpr double kMostAdditions = 32;
constexpr int64_t kSquaresTogether = 16; // along the dimension that is loaded, in a work item

int64_t extentOf(const StridedView &view, ArrayRef<unsigned> dims) {
  int64_t product = 1;
  for (unsigned dim : dims)
    product *= view.dims[dim].size;
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
    if (isa<graph::Elementwise>(op))
      additions += additionsOf(&op);
  return additions <= kMostAdditions;
}

/// Chooses disjoint dimensions to load along and to store along.
class LoopChoice {
public:
  LoopChoice(Transposition &turned, int64_t lanes)
      : turned_(turned), view_(turned.view), lanes_(lanes) {}

  /// False where squares would be mostly empty.
  bool run() {
    turned_.strides.resize(view_.dims.size());
    int64_t stride = 1;
    for (unsigned dim = view_.dims.size(); dim-- > 0; stride *= view_.dims[dim].size)
      turned_.strides[dim] = stride;
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
  int64_t stored() const { return extentOf(view_, turned_.stored); }
  int64_t loaded() const { return extentOf(view_, turned_.loaded); }
  bool isTaken(unsigned dim) const {
    return llvm::is_contained(turned_.stored, dim) || llvm::is_contained(turned_.loaded, dim);
  }

  /// Takes in the dimension that goes on in memory where those loaded end.
  bool loadFurther() {
    for (unsigned dim = 0; dim < view_.dims.size(); ++dim) {
      bool isPanel = view_.columns && dim == view_.panelDim;
      auto [size, stride] = view_.dims[dim];
      if (isPanel || isTaken(dim) || size == 1 || std::abs(stride) != loaded())
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
  int64_t lanes_;
};

/// What is loaded goes upwards through memory, whatever way the result has it.
void loadUpwards(Transposition &turned) {
  for (unsigned dim : turned.loaded) {
    auto &[size, stride] = turned.view.dims[dim];
    if (stride > 0)
      continue;
    turned.view.offset += stride * (size - 1);
    turned.offset += turned.strides[dim] * (size - 1);
    stride = -stride;
    turned.strides[dim] = -turned.strides[dim];
  }
}

class TransposeEmitter {
public:
  TransposeEmitter(ElementEmitter &emitter, graph::KernelOp kernel, const Transposition &turned,
                   int64_t lanes, Value result)
      : emitter_(emitter), math_(emitter.math), turned_(turned), view_(turned.view), lanes_(lanes),
        result_(result), yielded_(kernel.getBody().front().getTerminator()->getOperand(0)),
        columns_(extentOf(view_, turned.stored)), run_(extentOf(view_, turned.loaded)) {}

  /// One item: some squares' length of the run, for one index of the outer dimensions.
  void emit(Value item) {
    SmallVector<Value> extents;
    for (unsigned dim : turned_.outer)
      extents.push_back(math_.constant(view_.dims[dim].size));
    int64_t length = kSquaresTogether * lanes_;
    extents.push_back(math_.constant((run_ + length - 1) / length));
    SmallVector<Value> at = math_.delinear(item, extents);
    Value part = at.pop_back_val();
    from_ = math_.constant(view_.offset);
    to_ = math_.constant(turned_.offset);
    for (auto [dim, index] : llvm::zip_equal(turned_.outer, at)) {
      from_ = math_.add(from_, math_.mul(index, view_.dims[dim].stride));
      to_ = math_.add(to_, math_.mul(index, turned_.strides[dim]));
      if (view_.columns && dim == view_.panelDim)
        panel_ = index;
    }
    begin_ = math_.mul(part, length);
    end_ = math_.min(math_.add(begin_, length), math_.constant(run_));
    eachPart(columns_, math_.constant(0), math_.constant(columns_),
             [&](Value column, int64_t count) { emitColumns(column, count); });
  }

private:
  using Part = function_ref<void(Value, int64_t)>;

  /// Calls `part` with what is in [begin, end) of `size`, whole vectors and the rest of one at the
  /// end of it all.
  void eachPart(int64_t size, Value begin, Value end, Part part) {
    int64_t whole = size / lanes_ * lanes_;
    if (whole)
      emitFor(math_, begin, math_.min(end, math_.constant(whole)), math_.constant(lanes_),
              [&](Value at) { part(at, lanes_); });
    if (whole != size)
      emitIf(math_, math_.less(math_.constant(whole), end),
             [&] { part(math_.constant(whole), size - whole); });
  }

  void emitColumns(Value column, int64_t count) {
    auto squares = [&](Value known) {
      eachPart(run_, begin_, end_,
               [&](Value at, int64_t length) { emitSquare(column, count, at, length, known); });
    };
    if (!view_.columns)
      return squares({});
    Value first = panel_ ? math_.mul(panel_, columns_) : math_.constant(0);
    first = math_.add(first, column);
    emitIf(
        math_, math_.less(math_.add(first, lanes_ - 1), math_.constant(view_.columns)),
        [&] { squares({}); }, [&] { squares(first); });
  }

  /// `firstColumn`: the number of the first column, where some may be behind the last; or null.
  void emitSquare(Value column, int64_t count, Value at, int64_t length, Value firstColumn) {
    auto &builder = emitter_.builder();
    Type type = VectorType::get({lanes_}, builder.getF32Type());
    SmallVector<Value> rows;
    for (int64_t row = 0; row < lanes_; ++row) {
      if (row >= count) {
        rows.push_back(
            builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type)));
        continue;
      }
      Value number = math_.add(column, row);
      Value place = math_.add(from_, math_.add(offset(turned_.stored, number, false), at));
      Value mask = length < lanes_ ? below(length) : Value();
      if (firstColumn) {
        Value exists = math_.less(math_.add(firstColumn, row), math_.constant(view_.columns));
        Value all = emitter_.splat(exists, lanes_);
        mask = mask ? builder.create<arith::AndIOp>(math_.location, mask, all) : all;
      }
      FlatElements elements(emitter_, elementsOf(view_.source));
      Value numbers = elements.at(view_.source, place, lanes_, mask);
      rows.push_back(firstColumn ? zeroWithout(mask, numbers) : numbers);
    }
    SmallVector<Value> lines = transposedSquare(math_, rows);
    Value mask = count < lanes_ ? below(count) : Value();
    for (int64_t line = 0; line < length; ++line) {
      Value place = math_.add(to_, offset(turned_.loaded, math_.add(at, line), true));
      place = math_.add(place, column);
      FlatElements elements(emitter_, elementsOf(yielded_));
      elements.define(turned_.moved, lines[line]);
      emitter_.store(result_, builder.getF32Type(), place,
                     elements.at(yielded_, place, lanes_, mask), mask);
    }
  }

  Value below(int64_t count) { return emitter_.maskBelow(math_.constant(count), lanes_); }

  Value zeroWithout(Value mask, Value numbers) {
    auto &builder = emitter_.builder();
    Value zero =
        builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(numbers.getType()));
    return builder.create<arith::SelectOp>(math_.location, mask, numbers, zero);
  }

  /// In memory or in the result, of the element with that number in some dimensions.
  Value offset(ArrayRef<unsigned> dims, Value number, bool inResult) {
    SmallVector<Value> sizes;
    for (unsigned dim : dims)
      sizes.push_back(math_.constant(view_.dims[dim].size));
    Value sum = math_.constant(0);
    for (auto [dim, index] : llvm::zip_equal(dims, math_.delinear(number, sizes)))
      sum = math_.add(sum,
                      math_.mul(index, inResult ? turned_.strides[dim] : view_.dims[dim].stride));
    return sum;
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  const Transposition &turned_;
  const StridedView &view_;
  int64_t lanes_;
  Value result_, yielded_;
  int64_t columns_, run_;
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

std::optional<Transposition> matchTransposition(graph::KernelOp kernel,
                                                const MachineShape &machine) {
  int64_t lanes = machine.lanes(sizeof(float));
  Value yielded = kernel.getBody().front().getTerminator()->getOperand(0);
  auto type = cast<RankedTensorType>(yielded.getType());
  if (kernel->getNumResults() != 1 || !type.hasStaticShape() ||
      type.getNumElements() < lanes * lanes || !isLittleCode(kernel))
    return std::nullopt;
  Transposition turned;
  turned.moved = movedValue(yielded);
  auto view = turned.moved ? stridedView(turned.moved) : std::nullopt;
  if (!view || view->dims.size() < 2 ||
      !FlatElements::areKnown(yielded, type.getNumElements(), turned.moved) ||
      !FlatElements::areKnown(view->source, elementsOf(view->source)))
    return std::nullopt;
  turned.view = *view;
  if (!LoopChoice(turned, lanes).run())
    return std::nullopt;
  loadUpwards(turned);
  return turned;
}

Template transposeTemplate(graph::KernelOp kernel, const Transposition &turned,
                           const MachineShape &machine) {
  Template parts;
  int64_t lanes = machine.lanes(sizeof(float));
  int64_t length = kSquaresTogether * lanes, run = extentOf(turned.view, turned.loaded);
  int64_t items = extentOf(turned.view, turned.outer) * ((run + length - 1) / length);
  int64_t vectors = extentOf(turned.view, turned.stored) * std::min(run, length) / lanes;
  parts.summary = "squares of " + std::to_string(lanes);
  parts.items = [=](IndexMath &math, const SizeValues &) -> WorkItems {
    return {math.constant(items), grainOf(math, math.constant(std::max<int64_t>(8 * vectors, 1)))};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    emitFor(emitter.math, begin, end, emitter.math.constant(1), [&](Value item) {
      TransposeEmitter(emitter, kernel, turned, lanes, results[0]).emit(item);
    });
  };
  return parts;
}

} // namespace tensmith::kernel
