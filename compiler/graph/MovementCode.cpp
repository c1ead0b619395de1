// Where the elements of moved tensors come from (Indexed::emitElement).
//
// Each operator maps a result's index to its operand's. Parts of the result that no element backs
// (padding) are what ElementContext::read guards.
#include "compiler/graph/IndexCode.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
/// One run of dimensions whose product is the same in operand and result, inner dimensions
/// included in neither other run.
struct ReshapeGroup {
  SmallVector<unsigned> from, to; // dimensions of the result, of the operand
};

bool isSameDim(RankedTensorType a, unsigned dimA, RankedTensorType b, unsigned dimB) {
  if (!a.isDynamicDim(dimA) && !b.isDynamicDim(dimB))
    return a.getDimSize(dimA) == b.getDimSize(dimB);
  if (!a.isDynamicDim(dimA) || !b.isDynamicDim(dimB) || !a.getEncoding() || !b.getEncoding())
    return false;
  // Expressions count from their own type's names: comparable where those are the same list.
  return symbolNames(a) == symbolNames(b) && dimExpression(a, dimA) == dimExpression(b, dimB);
}

/// Splits a reshape into independent groups of dimensions, from the last on, so that a dimension
/// that is kept keeps its own index and only what is merged or split costs a division.
SmallVector<ReshapeGroup> reshapeGroups(RankedTensorType from, RankedTensorType to) {
  SmallVector<ReshapeGroup> groups;
  int64_t f = from.getRank() - 1, t = to.getRank() - 1;
  while (f >= 0 || t >= 0) {
    ReshapeGroup group;
    if (f >= 0 && t >= 0 && isSameDim(from, f, to, t)) {
      group.from.push_back(f--);
      group.to.push_back(t--);
      groups.push_back(group);
      continue;
    }
    // Grow the side with the smaller product until both agree; symbolic sizes take what is left.
    int64_t productFrom = 1, productTo = 1;
    bool isStatic = true;
    do {
      bool growFrom = f >= 0 && (t < 0 || productFrom <= productTo);
      int64_t size = growFrom ? from.getDimSize(f) : to.getDimSize(t);
      isStatic = size != ShapedType::kDynamic && size != 0;
      if (!isStatic)
        break;
      (growFrom ? productFrom : productTo) *= size;
      if (growFrom)
        group.from.insert(group.from.begin(), f--);
      else
        group.to.insert(group.to.begin(), t--);
    } while (productFrom != productTo && (f >= 0 || t >= 0));
    if (!isStatic || productFrom != productTo)
      for (; f >= 0 || t >= 0;) {
        if (f >= 0)
          group.from.insert(group.from.begin(), f--);
        if (t >= 0)
          group.to.insert(group.to.begin(), t--);
      }
    groups.push_back(group);
  }
  return groups;
}

Value linearise(const IndexCode &code, ValueRange indices, ValueRange sizes) {
  Value linear = code.constant(0);
  for (auto [index, size] : llvm::zip_equal(indices, sizes))
    linear = code.add(code.mul(linear, size), index);
  return linear;
}

/// The inverse: one division a dimension, none for the first.
SmallVector<Value> delinearise(const IndexCode &code, Value linear, ValueRange sizes) {
  SmallVector<Value> indices(sizes.size());
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (dim == 0) {
      indices[dim] = linear;
    } else {
      indices[dim] = code.rem(linear, sizes[dim]);
      linear = code.div(linear, sizes[dim]);
    }
  }
  return indices;
}

/// Counts of elements beside a dimension of `size`; `mayBeEmpty`: none of it may be left to
/// continue.
struct Padding {
  Value low, high, size;
  bool mayBeEmpty;
};

/// Where the element at `position` of the continuation of [0, size) is from; size > 0.
Value continued(const IndexCode &code, Value position, Value size, StringRef mode) {
  if (mode == "edge")
    return code.clamp(position, size);
  if (mode == "wrap") {
    Value remainder = code.make<arith::RemSIOp>(position, size);
    return code.select(code.isNegative(remainder), code.add(remainder, size), remainder);
  }
  // Period 2 (size - 1), folded in half; a dimension of one element reflects on itself.
  Value last = code.sub(size, code.constant(1));
  Value period = code.make<arith::MaxSIOp>(code.mul(last, 2), code.constant(1));
  Value remainder = code.make<arith::RemSIOp>(position, period);
  remainder = code.select(code.isNegative(remainder), code.add(remainder, period), remainder);
  return code.make<arith::MinSIOp>(remainder, code.sub(period, remainder));
}

/// The index that the element at `index` is from, of a mode that continues it; `inside` gathers
/// whether there is one. What is cropped is cropped first, and the modes continue what is left.
Value padIndex(const IndexCode &code, Value index, const Padding &padding, StringRef mode,
               Value &inside) {
  Value zero = code.constant(0);
  auto cropped = [&](Value count) {
    return code.make<arith::MaxSIOp>(code.sub(zero, count), zero);
  };
  Value begin = cropped(padding.low);
  Value kept = code.sub(code.sub(padding.size, begin), cropped(padding.high));
  Value position = code.sub(index, code.make<arith::MaxSIOp>(padding.low, zero));
  if (padding.mayBeEmpty) {
    Value isThere = code.less(zero, kept);
    code.context.check(isThere, "a dimension is empty, which nothing continues");
    inside = code.both(inside, isThere);
    kept = code.make<arith::MaxSIOp>(kept, code.constant(1));
  }
  return code.add(continued(code, position, kept, mode), begin);
}

/// The element at these indices where those along `guarded` are within their dimensions, and
/// `inside` (null: always) holds; the one around them elsewhere.
Value paddedElement(Operation *op, const IndexCode &code, ValueRange source,
                    ArrayRef<unsigned> guarded, Value inside, unsigned value) {
  ElementContext &context = code.context;
  if (!inside && guarded.empty())
    return context.operand(0, source);
  Value filling = zeroElement(context, op->getOperand(0));
  if (auto type = rankedType(op->getOperand(value))) {
    if (type.getRank() > 1 || (type.getRank() == 1 && type.getDimSize(0) != 1))
      return {};
    SmallVector<Value> zeros(type.getRank(), code.constant(0));
    filling = context.operand(value, zeros);
  }
  if (!inside || context.isForNest()) // which looks at each index that isn't affine
    return context.read(0, source, guarded, filling);
  return readWhere(code, inside, /*asBranch=*/true, filling,
                   [&] { return context.operand(0, source); });
}

bool mayBeEmpty(int64_t size) { return size == 0 || size == ShapedType::kDynamic; }
} // namespace

Value ReshapeOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  IndexCode code(context);
  auto from = rankedType(getY()), to = rankedType(getX());
  SmallVector<Value> source(to.getRank());
  for (const ReshapeGroup &group : reshapeGroups(from, to)) {
    if (group.from.size() == 1 && group.to.size() == 1) {
      source[group.to[0]] = indices[group.from[0]];
      continue;
    }
    SmallVector<Value> groupIndices, fromSizes, toSizes;
    for (unsigned dim : group.from) {
      groupIndices.push_back(indices[dim]);
      fromSizes.push_back(context.resultSize(0, dim));
    }
    for (unsigned dim : group.to)
      toSizes.push_back(context.operandSize(0, dim));
    Value linear = linearise(code, groupIndices, fromSizes);
    for (auto [dim, index] : llvm::zip_equal(group.to, delinearise(code, linear, toSizes)))
      source[dim] = to.getDimSize(dim) == 1 ? code.constant(0) : index;
  }
  return context.operand(0, source);
}

Value TransposeOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  SmallVector<Value> source(indices.size());
  for (auto [dim, from] : llvm::enumerate(getPermutation()))
    source[from] = indices[dim];
  return context.operand(0, source);
}

Value BroadcastOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  IndexCode code(context);
  auto type = rankedType(getX());
  unsigned offset = indices.size() - type.getRank();
  SmallVector<Value> source;
  for (unsigned dim = 0; dim < type.getRank(); ++dim) {
    Value index = indices[dim + offset];
    if (type.getDimSize(dim) == 1)
      index = code.constant(0);
    else if (type.isDynamicDim(dim) && !isSameDim(type, dim, rankedType(getY()), dim + offset)) {
      Value isOne =
          code.compare(arith::CmpIPredicate::eq, context.operandSize(0, dim), code.constant(1));
      index = code.select(isOne, code.constant(0), index);
    }
    source.push_back(index);
  }
  return context.operand(0, source);
}

Value SliceOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  IndexCode code(context);
  SmallVector<Value> source;
  for (auto [index, start, step] : llvm::zip_equal(indices, getStarts(), getSteps()))
    source.push_back(code.add(code.mul(index, step), start));
  return context.operand(0, source);
}

Value ConcatOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  // Each input in turn replaces what the ones before it gave.
  IndexCode code(context);
  unsigned axis = getAxis();
  Value begin = code.constant(0), element;
  for (unsigned number = 0; number < getInputs().size(); ++number) {
    auto type = rankedType(getInputs()[number]);
    if (type.getDimSize(axis) == 0)
      continue;
    Value size = context.operandSize(number, axis);
    Value index = code.sub(indices[axis], begin);
    SmallVector<Value> source(indices);
    source[axis] = index;
    if (getInputs().size() == 1)
      return context.operand(number, source);
    // Where there is none of the first, there is one of another.
    Value otherwise =
        element || !mayBeEmpty(type.getDimSize(axis)) ? element : zeroElement(context, getResult());
    element = context.read(number, source, axis, otherwise);
    if (!element)
      return {};
    begin = code.add(begin, size);
  }
  return element ? element : zeroElement(context, getResult());
}

Value PadOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  auto type = rankedType(getX());
  IndexCode code(context);
  Value inside;
  SmallVector<unsigned> guarded;
  SmallVector<Value> source(indices);
  for (unsigned dim = 0; dim < indices.size(); ++dim) {
    int64_t low = getLow()[dim], high = getHigh()[dim], size = type.getDimSize(dim);
    if ((low <= 0 && high <= 0) || getMode() == "constant") {
      source[dim] = code.add(indices[dim], -low);
      if (low > 0 || high > 0)
        guarded.push_back(dim);
      continue;
    }
    bool isOpen = mayBeEmpty(size);
    if (!isOpen && size <= std::max<int64_t>(-low, 0) + std::max<int64_t>(-high, 0))
      return {}; // no element is left to continue
    Padding padding{code.constant(low), code.constant(high), context.operandSize(0, dim), isOpen};
    source[dim] = padIndex(code, indices[dim], padding, getMode(), inside);
  }
  return paddedElement(*this, code, source, guarded, inside, 1);
}

/// The pads of all axes, which are read for each element: from memory, since they were computed
/// before.
Value DynamicPadOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  auto pads = rankedType(getPads());
  int64_t rank = int64_t(indices.size());
  if (!hasKernelTypes(*this) || rankedType(getAxes()) || !pads.getElementType().isInteger(64) ||
      pads.getRank() != 1 || pads.getDimSize(0) != 2 * rank)
    return {};
  IndexCode code(context);
  auto amount = [&](int64_t number) {
    return code.fromInteger(context.operand(1, code.constant(number)), /*isUnsigned=*/false);
  };
  Value inside;
  SmallVector<unsigned> guarded;
  SmallVector<Value> source;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (getMode() == "constant") {
      source.push_back(code.sub(indices[dim], amount(dim)));
      guarded.push_back(unsigned(dim));
      continue;
    }
    // Of a crop alone that was told by the pads, too, nothing is known here.
    Padding padding{amount(dim), amount(dim + rank), context.operandSize(0, dim), true};
    source.push_back(padIndex(code, indices[dim], padding, getMode(), inside));
  }
  return paddedElement(*this, code, source, guarded, inside, 2);
}

Value ReverseOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  IndexCode code(context);
  SmallVector<Value> source(indices);
  for (int64_t axis : getAxes())
    source[axis] = code.sub(code.add(context.resultSize(0, axis), -1), indices[axis]);
  return context.operand(0, source);
}

Value TriluOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this) || indices.size() < 2)
    return {};
  IndexCode code(context);
  Value row = indices[indices.size() - 2], column = indices.back(), diagonal = code.constant(0);
  if (auto type = rankedType(getK())) {
    SmallVector<Value> zeros(type.getRank(), code.constant(0));
    diagonal = code.fromInteger(context.operand(1, zeros), false);
  }
  using Is = arith::CmpIPredicate;
  // Of any k, which a row's number must not be added to: the sum might be too large.
  Value isKept = code.compare(getUpper() ? Is::sge : Is::sle, code.sub(column, row), diagonal);
  return code.select(isKept, context.operand(0, indices), zeroElement(context, getX()));
}

Value PackOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  // Result [..., panel, k, lane]; operand [..., k, n], or [..., n, k] where transposed.
  auto type = rankedType(getX());
  unsigned rank = type.getRank();
  if (indices.size() != rank + 1 || rank < 2 || type.getDimSize(rank - 1) == 0)
    return {};
  IndexCode code(context);
  Value k = indices[rank - 1];
  Value n = code.add(code.mul(indices[rank - 2], getWidth()), indices[rank]);
  unsigned dimN = getTransposed() ? rank - 2 : rank - 1;
  SmallVector<Value> source(indices.take_front(rank - 2));
  source.append({k, k});
  bool isExact = !type.isDynamicDim(dimN) && type.getDimSize(dimN) % getWidth() == 0;
  Value size = context.operandSize(0, dimN);
  source[dimN] = isExact ? n : code.make<arith::MinSIOp>(n, code.add(size, -1));
  Value element = context.operand(0, source);
  return isExact ? element : code.select(code.less(n, size), element, zeroElement(context, getX()));
}

Value UnpackOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  // Operand [..., panel, k, lane]; result [..., k, n].
  unsigned rank = indices.size();
  IndexCode code(context);
  Value width = context.operandSize(0, rank);
  SmallVector<Value> source(indices.take_front(rank - 2));
  source.push_back(code.div(indices[rank - 1], width));
  source.push_back(indices[rank - 2]);
  source.push_back(code.rem(indices[rank - 1], width));
  return context.operand(0, source);
}

} // namespace tensmith::graph
