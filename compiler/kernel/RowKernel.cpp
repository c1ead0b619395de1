// A row is computed once into memory of the thread's own while its statistics are taken; a second
// sweep over it (now in the first-level cache) applies them and everything that follows, and stores
// the results. So a softmax with the scaling and the mask before it reads and writes each row of
// memory once. Sums are taken in lanes and joined at the end.
#include "compiler/kernel/RowKernel.h"

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
             const MachineShape &machine, Value buffer)
      : emitter_(emitter), math_(emitter.math), code_(emitter.builder(), emitter.math.location),
        kernel_(kernel), root_(root), lanes_(machine.lanes(4)), buffer_(buffer),
        shape_(emitter.dims(root->getResult(0))), sweep_(emitter, shape_.back(), lanes_) {}

  void emit(Value row, ValueRange results) {
    SmallVector<Value> outer = math_.delinear(row, ArrayRef(shape_).drop_back());
    Value input = root_->getOperand(0);
    Finish finish = isa<graph::SoftmaxOp>(root_) ? softmax(input, outer) : layerNorm(input, outer);
    emitter_.define(root_->getResult(0), [this, finish](const Position &at) {
      return finish(fromBuffer(at.indices.back(), at.mask), at);
    });
    Value start = math_.mul(row, shape_.back());
    auto yield = cast<graph::YieldOp>(kernel_.getBody().front().getTerminator());
    sweep_.run({}, [&](Value column, Value mask, ValueRange) -> SmallVector<Value> {
      Position at = position(outer, column, mask);
      for (auto [value, pointer] : llvm::zip_equal(yield.getValues(), results))
        emitter_.store(pointer, getElementTypeOrSelf(value.getType()), math_.add(start, column),
                       emitter_.element(value, at), mask);
      return {};
    });
  }

private:
  Type f32() { return emitter_.builder().getF32Type(); }
  Value splat(double value) {
    auto type = VectorType::get({lanes_}, f32());
    return emitter_.builder().create<arith::ConstantOp>(
        math_.location, DenseElementsAttr::get(type, emitter_.builder().getF32FloatAttr(value)));
  }
  Position position(ValueRange outer, Value column, Value mask) {
    Position at{SmallVector<Value>(outer), lanes_, mask};
    at.indices.push_back(column);
    return at;
  }
  Value fromBuffer(Value column, Value mask) {
    return emitter_.load(buffer_, f32(), column, lanes_, mask);
  }
  /// First sweep: the row into the buffer, carrying one statistic.
  Value fill(Value input, ValueRange outer, Value initial,
             llvm::function_ref<Value(Value, Value)> combine) {
    return sweep_.run({initial},
                      [&](Value column, Value mask, ValueRange carried) -> SmallVector<Value> {
                        Value element = emitter_.element(input, position(outer, column, mask));
                        emitter_.store(buffer_, f32(), column, element, mask);
                        return {combine(carried[0], keepLanes(code_, mask, element, initial))};
                      })[0];
  }

  Finish softmax(Value input, ValueRange outer) {
    Value lowest = splat(-std::numeric_limits<float>::infinity());
    Value lanes = fill(input, outer, lowest, [&](Value a, Value b) { return code_.maximum(a, b); });
    Value scale = emitter_.splat(exponentiate(emitter_, sweep_, buffer_, lanes), lanes_);
    return [this, scale](Value element, const Position &) { return code_.mul(element, scale); };
  }

  /// Two passes over the buffered row, since the difference of squares loses what small variances
  /// have.
  Finish layerNorm(Value input, ValueRange outer) {
    auto op = cast<graph::LayerNormOp>(root_);
    Value zero = splat(0);
    Value sums = fill(input, outer, zero, [&](Value a, Value b) { return code_.add(a, b); });
    Value inverseCount = reciprocal(columnsAsFloat());
    Value mean = emitter_.splat(
        code_.mul(joinLanes(emitter_, vector::CombiningKind::ADD, sums), inverseCount), lanes_);
    Value squares =
        sweep_.run({zero}, [&](Value column, Value mask, ValueRange carried) -> SmallVector<Value> {
          Value difference =
              keepLanes(code_, mask, code_.sub(fromBuffer(column, mask), mean), zero);
          return {code_.multiplyAdd(difference, difference, carried[0])};
        })[0];
    Value variance =
        code_.mul(joinLanes(emitter_, vector::CombiningKind::ADD, squares), inverseCount);
    variance = code_.add(variance, code_.real(variance, op.getEpsilon().convertToDouble()));
    Value scale = emitter_.splat(reciprocal(code_.sqrt(variance)), lanes_);
    return [this, op, mean, scale](Value element, const Position &at) mutable {
      Value normal = code_.mul(code_.sub(element, mean), scale);
      normal = code_.mul(normal, broadcast(op.getScale(), at));
      return isa<NoneType>(op.getBias().getType()) ? normal
                                                   : code_.add(normal, broadcast(op.getBias(), at));
    };
  }

  Value broadcast(Value operand, const Position &at) {
    Position own = broadcastPosition(math_, at, cast<RankedTensorType>(operand.getType()));
    return emitter_.splat(emitter_.element(operand, own), lanes_);
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
  int64_t lanes_;
  Value buffer_;
  SmallVector<Value> shape_;
  RowSweep sweep_;
};

Operation *findRoot(graph::KernelOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (isRowRoot(&op))
      return &op;
  return nullptr;
}

} // namespace

bool isRowRoot(Operation *op) {
  if (!isa<graph::SoftmaxOp, graph::LayerNormOp>(op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type || type.getRank() == 0 || !graph::kernelElementType(type.getElementType()) ||
      type.getElementType().getIntOrFloatBitWidth() > 32)
    return false;
  if (auto norm = dyn_cast<graph::LayerNormOp>(op))
    return norm.getMean().use_empty() && norm.getInverseDeviation().use_empty() &&
           norm.getAxis() == uint64_t(type.getRank() - 1);
  return cast<graph::SoftmaxOp>(op).getAxis() == uint64_t(type.getRank() - 1);
}

Template rowTemplate(graph::KernelOp kernel, const MachineShape &machine) {
  Operation *root = findRoot(kernel);
  Type shape = root->getResult(0).getType();
  Template parts;
  parts.schedule = "rows";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    SmallVector<Value> dims = dimValues(math, sizes, shape);
    Value columns = dims.pop_back_val();
    return {math.product(dims), grainOf(math, math.mul(columns, 4))};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Value bytes = math.mul(emitter.dims(root->getResult(0)).back(), 4);
    Value buffer = emitScratch(emitter, bytes, begin, end);
    emitFor(math, begin, end, math.constant(1), [&](Value row) {
      RowEmitter(emitter, kernel, root, machine, buffer).emit(row, results);
    });
  };
  return parts;
}

} // namespace tensmith::kernel
