// Element-wise chains, movement, reductions and windows: each element of the results by itself,
// fused at its index.
//
// The loop over the last dimension is left to LLVM's vectoriser; the other dimensions, and blocks
// of the last, are the parallel items.
#include "compiler/kernel/LoopKernel.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kBlock = 4096; // elements of the last dimension that one item covers at most

/// The shape that is looped over, with at least one dimension.
struct IterationSpace {
  SmallVector<Value> outer;
  Value inner, block, blocks, items;

  IterationSpace(IndexMath &math, const SizeValues &sizes, Type type) {
    outer = dimValues(math, sizes, type);
    inner = outer.empty() ? math.constant(1) : outer.pop_back_val();
    block = math.constant(kBlock);
    if (auto size = constantIndex(inner); size && *size < kBlock)
      block = math.constant(std::max<int64_t>(*size, 1));
    blocks = math.ceilDiv(inner, block);
    items = math.mul(math.product(outer), blocks);
  }
};

/// Scalar operations for one element of the region's results, roughly: operators, times the extents
/// that they reduce.
Value workPerElement(IndexMath &math, const SizeValues &sizes, graph::KernelOp kernel) {
  Value work = math.constant(1);
  Value out = math.max(math.product(dimValues(math, sizes, kernel.getResult(0).getType())),
                       math.constant(1));
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (isa<graph::ConstantOp>(op) || op.getNumOperands() == 0)
      continue;
    Value in = math.product(dimValues(math, sizes, op.getOperand(0).getType()));
    work = math.add(work, math.ceilDiv(in, out));
  }
  return work;
}

} // namespace

Template loopTemplate(graph::KernelOp kernel) {
  Template parts;
  parts.schedule = "loops";
  Type shape = kernel.getResult(0).getType();
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    IterationSpace space(math, sizes, shape);
    Value work = math.mul(workPerElement(math, sizes, kernel), math.min(space.block, space.inner));
    return {space.items, grainOf(math, work)};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) mutable {
    IndexMath &math = emitter.math;
    IterationSpace space(math, emitter.sizes, shape);
    Value one = math.constant(1);
    bool scalar = cast<RankedTensorType>(shape).getRank() == 0;
    emitFor(math, begin, end, one, [&](Value item) {
      SmallVector<Value> indices = space.outer;
      indices.push_back(space.blocks);
      indices = math.delinear(item, indices);
      Value first = math.mul(indices.pop_back_val(), space.block);
      Value last = math.min(math.add(first, space.block), space.inner);
      Value row = math.mul(math.linear(indices, space.outer), space.inner);
      emitFor(math, first, last, one, [&](Value inner) {
        Position at{indices};
        if (!scalar)
          at.indices.push_back(inner);
        Value offset = math.add(row, inner);
        auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
        SmallVector<Value> elements;
        for (Value value : yield.getValues())
          elements.push_back(emitter.element(value, at));
        for (auto [value, element, pointer] : llvm::zip_equal(yield.getValues(), elements, results))
          emitter.store(pointer, getElementTypeOrSelf(value.getType()), offset, element);
      });
    });
  };
  return parts;
}

} // namespace tensmith::kernel
