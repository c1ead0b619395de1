// A row is everything behind the dimensions before the axis. Of each input a row is one run of
// consecutive elements, and lands as one run in the result: vectors are copied, and what follows is
// applied on the way, to vectors too if a run lies along the last dimension.
#include "compiler/kernel/ConcatKernel.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

ValueRange yieldedBy(graph::KernelOp kernel) {
  return cast<graph::YieldOp>(kernel.getBody().front().getTerminator()).getValues();
}

/// Whether what follows, if anything does, is of elements that lie side by side in a run.
bool takesVectors(graph::KernelOp kernel, graph::ConcatOp root) {
  int64_t rank = cast<RankedTensorType>(root.getType()).getRank();
  return int64_t(root.getAxis()) + 1 == rank ||
         llvm::all_of(yieldedBy(kernel), [&](Value value) { return value == root.getY(); });
}

class ConcatEmitter {
public:
  ConcatEmitter(ElementEmitter &emitter, graph::KernelOp kernel, graph::ConcatOp root,
                const MachineShape &machine, ValueRange results)
      : emitter_(emitter), math_(emitter.math), kernel_(kernel), root_(root), results_(results),
        dims_(emitter.dims(root.getY())), axis_(root.getAxis()) {
    if (takesVectors(kernel, root))
      lanes_ = machine.lanes(sizeof(float));
  }

  void emitRow(Value row) {
    outer_ = math_.delinear(row, ArrayRef(dims_).take_front(axis_));
    Value inner = math_.product(ArrayRef(dims_).drop_front(axis_ + 1));
    assert(!kernel_.getPitch() || axis_ + 1 == dims_.size());
    Value length = kernel_.getPitch() ? pitchOf(emitter_, kernel_) : math_.mul(dims_[axis_], inner);
    Value start = math_.mul(row, length);
    Value before = math_.constant(0);
    for (Value input : root_.getInputs()) {
      Value size = emitter_.dims(input)[axis_];
      emitRun(input, row, math_.mul(size, inner), math_.add(start, math_.mul(before, inner)),
              before);
      before = math_.add(before, size);
    }
  }

private:
  /// The run of one input; `before` are the elements of the axis that the inputs before it fill.
  void emitRun(Value input, Value row, Value length, Value to, Value before) {
    Value from = math_.mul(row, length);
    auto emit = [&](Value at, int64_t lanes, Value mask) {
      emitElements(input, math_.add(from, at), math_.add(to, at), at, before, lanes, mask);
    };
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

  /// So many elements of the run, from number `at` on.
  void emitElements(Value input, Value from, Value to, Value at, Value before, int64_t lanes,
                    Value mask) {
    Type element = getElementTypeOrSelf(input.getType());
    Value read = emitter_.load(emitter_.buffer(input), element, from, lanes, mask);
    emitter_.define(root_.getY(), [read](const Position &) { return read; });
    Position position{outer_, lanes, mask};
    SmallVector<Value> rest = math_.delinear(at, ArrayRef(dims_).drop_front(axis_));
    rest[0] = math_.add(rest[0], before);
    position.indices.append(rest);
    for (auto [value, pointer] : llvm::zip_equal(yieldedBy(kernel_), results_))
      emitter_.store(pointer, getElementTypeOrSelf(value.getType()), to,
                     emitter_.element(value, position), mask);
  }

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

Template concatTemplate(graph::KernelOp kernel, graph::ConcatOp root, const MachineShape &machine) {
  Template parts;
  parts.summary = takesVectors(kernel, root) ? "concat, by vectors" : "concat";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    SmallVector<Value> dims = dimValues(math, sizes, root.getType());
    size_t axis = root.getAxis();
    return {math.product(ArrayRef(dims).take_front(axis)),
            grainOf(math, math.product(ArrayRef(dims).drop_front(axis)))};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    ConcatEmitter concat(emitter, kernel, root, machine, results);
    emitFor(emitter.math, begin, end, emitter.math.constant(1),
            [&](Value row) { concat.emitRow(row); });
  };
  return parts;
}

} // namespace tensmith::kernel
