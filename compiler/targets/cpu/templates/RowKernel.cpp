// A row is computed once into memory of the thread's own while its statistics are taken; a second
// sweep over it (now in the first-level cache) applies them and everything that follows, and stores
// the results. So a softmax with the scaling and the mask before it reads and writes each row of
// memory once. Sums are taken in lanes and joined at the end.
#include "compiler/targets/cpu/templates/RowKernel.h"

#include "compiler/kernel/RowShape.h"
#include "compiler/kernel/RowSweep.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

using graph::ScalarCode;

/// What the second sweep makes of an element of the buffered row.
using Finish = std::function<Value(Value element, const Position &)>;

class RowEmitter {
public:
  RowEmitter(ElementEmitter &emitter, graph::KernelOp kernel, Operation *root,
             const Machine &machine, Value buffer, const Point &asked)
      : emitter_(emitter), math_(emitter.math), code_(emitter.builder(), emitter.math.location),
        kernel_(kernel), root_(root), buffer_(buffer), shape_(emitter.dims(root->getResult(0))),
        sweep_(emitter, shape_.back(), machine.lanes(4), asked) {}

  void emit(Value row, ValueRange results) {
    SmallVector<Value> outer = outerIndices(row);
    Value input = root_->getOperand(0);
    Finish finish = isa<graph::SoftmaxOp>(root_)      ? softmax(input, outer)
                    : isa<graph::LogSoftmaxOp>(root_) ? logSoftmax(input, outer)
                                                      : layerNorm(input, outer);
    emitter_.define(root_->getResult(0), [this, finish](const Position &at) {
      return finish(emitter_.load(buffer_, f32(), at.indices.back(), at.lanes, at.mask), at);
    });
    storeOnePerRow(row, outer, results);
    storeRows(math_.mul(row, shape_.back()), outer, results);
  }

private:
  using Columns = RowSweep::Columns;

  /// Of a dimension of 1 the index is 0, as where it is broadcast: else an element would not be
  /// found again.
  SmallVector<Value> outerIndices(Value row) {
    SmallVector<Value> outer = math_.delinear(row, ArrayRef(shape_).drop_back());
    for (auto [index, size] : llvm::zip(outer, shape_))
      if (constantIndex(size) == 1)
        index = math_.constant(0);
    return outer;
  }

  ValueRange yielded() {
    return cast<graph::YieldOp>(kernel_.getBody().front().getTerminator()).getValues();
  }
  std::optional<RowShape> shapeOf(Value value) {
    return rowShapeOf(dyn_cast<RankedTensorType>(value.getType()),
                      cast<RankedTensorType>(root_->getResult(0).getType()));
  }

  /// Before any whole row: they may read what a result is written over.
  void storeOnePerRow(Value row, ValueRange outer, ValueRange results) {
    auto placeOf = [&](Value value) {
      Position at{SmallVector<Value>(outer)};
      if (shapeOf(value) == RowShape::Kept)
        at.indices.push_back(math_.constant(0));
      return at;
    };
    auto isOne = [&](Value value) {
      return shapeOf(value).value_or(RowShape::Whole) != RowShape::Whole;
    };
    for (Operation *op = root_->getNextNode(); op; op = op->getNextNode())
      if (op->getNumResults() == 1 && isa<graph::Indexed>(op) && isOne(op->getResult(0)))
        emitter_.element(op->getResult(0), placeOf(op->getResult(0)));
    for (auto [value, pointer] : llvm::zip_equal(yielded(), results))
      if (isOne(value))
        emitter_.store(pointer, getElementTypeOrSelf(value.getType()), row,
                       emitter_.element(value, placeOf(value)));
  }

  void storeRows(Value start, ValueRange outer, ValueRange results) {
    auto isWhole = [&](Value value) { return shapeOf(value) == RowShape::Whole; };
    if (!llvm::any_of(yielded(), isWhole))
      return;
    sweep_.each([&](const Columns &columns) {
      Position at = position(outer, columns);
      SmallVector<Value> elements;
      for (Value value : yielded())
        elements.push_back(isWhole(value) ? emitter_.element(value, at) : Value());
      for (auto [value, element, pointer] : llvm::zip_equal(yielded(), elements, results))
        if (element)
          emitter_.store(pointer, getElementTypeOrSelf(value.getType()),
                         math_.add(start, columns.first), element, columns.mask);
    });
  }

  Type f32() { return emitter_.builder().getF32Type(); }
  Position position(ValueRange outer, const Columns &columns) {
    Position at{SmallVector<Value>(outer), columns.lanes, columns.mask};
    at.indices.push_back(columns.first);
    return at;
  }
  Value fromBuffer(const Columns &columns) {
    return emitter_.load(buffer_, f32(), columns.first, columns.lanes, columns.mask);
  }
  /// First sweep: the row into the buffer, with one statistic of it.
  Value fill(Value input, ValueRange outer, vector::CombiningKind kind) {
    return sweep_.reduce(kind, [&](const Columns &columns) {
      Value element = emitter_.element(input, position(outer, columns));
      emitter_.store(buffer_, f32(), columns.first, element, columns.mask);
      return element;
    });
  }

  Finish softmax(Value input, ValueRange outer) {
    Value largest = fill(input, outer, vector::CombiningKind::MAXIMUMF);
    Value scale = exponentiate(emitter_, sweep_, buffer_, largest);
    return [this, scale](Value element, const Position &at) {
      return code_.mul(element, emitter_.splat(scale, at.lanes));
    };
  }

  Finish logSoftmax(Value input, ValueRange outer) {
    Value largest = fill(input, outer, vector::CombiningKind::MAXIMUMF);
    Value sum = sumExponentials(emitter_, sweep_, buffer_, largest, /*keep=*/false);
    Value logarithm = graph::emitLog(code_, sum);
    return [this, largest, logarithm](Value element, const Position &at) {
      return code_.sub(code_.sub(element, emitter_.splat(largest, at.lanes)),
                       emitter_.splat(logarithm, at.lanes));
    };
  }

  /// Two passes over the buffered row, since the difference of squares loses what small variances
  /// have.
  Finish layerNorm(Value input, ValueRange outer) {
    auto op = cast<graph::LayerNormOp>(root_);
    Value inverseCount = reciprocal(columnsAsFloat());
    Value mean = code_.mul(fill(input, outer, vector::CombiningKind::ADD), inverseCount);
    Value squares = sweep_.reduce(vector::CombiningKind::ADD, [&](const Columns &columns) {
      Value difference = code_.sub(fromBuffer(columns), emitter_.splat(mean, columns.lanes));
      return code_.mul(difference, difference);
    });
    Value variance = code_.mul(squares, inverseCount);
    variance = code_.add(variance, code_.real(variance, op.getEpsilon().convertToDouble()));
    Value scale = reciprocal(code_.sqrt(variance));
    return [this, op, mean, scale](Value element, const Position &at) mutable {
      Value normal = code_.mul(code_.sub(element, emitter_.splat(mean, at.lanes)),
                               emitter_.splat(scale, at.lanes));
      normal = code_.mul(normal, broadcast(op.getScale(), at));
      return isa<NoneType>(op.getBias().getType()) ? normal
                                                   : code_.add(normal, broadcast(op.getBias(), at));
    };
  }

  Value broadcast(Value operand, const Position &at) {
    Position own = broadcastPosition(math_, at, cast<RankedTensorType>(operand.getType()));
    return emitter_.splat(emitter_.element(operand, own), at.lanes);
  }
  Value reciprocal(Value x) { return code_.div(code_.real(x, 1), x); }
  Value columnsAsFloat() {
    return emitter_.builder().create<arith::SIToFPOp>(math_.location, f32(),
                                                      math_.toI64(shape_.back()));
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  ScalarCode code_;
  graph::KernelOp kernel_;
  Operation *root_;
  Value buffer_;
  SmallVector<Value> shape_;
  RowSweep sweep_;
};

/// Whether the operator is one that a row kernel is built around.
bool isRowRoot(Operation *op) {
  if (!isa<graph::SoftmaxOp, graph::LogSoftmaxOp, graph::LayerNormOp>(op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type || type.getRank() == 0 || !graph::kernelElementType(type.getElementType()) ||
      type.getElementType().getIntOrFloatBitWidth() > 32)
    return false;
  if (auto norm = dyn_cast<graph::LayerNormOp>(op))
    return norm.getMean().use_empty() && norm.getInverseDeviation().use_empty() &&
           norm.getAxis() == uint64_t(type.getRank() - 1);
  uint64_t axis = isa<graph::SoftmaxOp>(op) ? cast<graph::SoftmaxOp>(op).getAxis()
                                            : cast<graph::LogSoftmaxOp>(op).getAxis();
  return axis == uint64_t(type.getRank() - 1);
}

Operation *findRoot(graph::KernelOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (isRowRoot(&op))
      return &op;
  return nullptr;
}

} // namespace

static KernelParts rowParts(graph::KernelOp kernel, const Machine &machine, const Point &asked) {
  Operation *root = findRoot(kernel);
  Type shape = root->getResult(0).getType();
  KernelParts parts;
  parts.summary = "rows";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    SmallVector<Value> dims = dimValues(math, sizes, shape);
    Value columns = dims.pop_back_val();
    Point chosen;
    chosen.set(choice::vectors, asked[choice::vectors].value_or(kSideBySide));
    return {math.product(dims), grainOf(math, math.mul(columns, 4)), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Value bytes = math.mul(emitter.dims(root->getResult(0)).back(), 4);
    Value buffer = emitScratch(emitter, bytes, begin, end);
    emitFor(math, begin, end, math.constant(1), [&](Value row) {
      RowEmitter(emitter, kernel, root, machine, buffer, asked).emit(row, results);
    });
  };
  return parts;
}

constexpr const Choice *kChoices[] = {&choice::vectors};

const Template kRows = {
    .name = "rows",
    .mayBeRoot = isRowRoot,
    .isRoot = isRowRoot,
    .parts = [](graph::KernelOp kernel, Operation *, const Machine &machine,
                const Point &asked) { return rowParts(kernel, machine, asked); },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *, const Machine &,
                Space &space) { space.addDoubling(choice::vectors, choice::vectors.most); },
    .sweepsRows = true,
    .takesFirstResult = true,
    .computesOperands = true,
    .storing = graph::Storing::Rows,
};

} // namespace tensmith::kernel
