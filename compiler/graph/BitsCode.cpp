// Bit planes and their sums as loops (Indexed::emitElement): for machines and words that no
// template takes.
//
// Of a word of codes u and v, planes i and j:
//
//   sum (fx u - ox) (fw v - ow) = fx fw sum 2^(i+j) |u_i & v_j| - fx ow sum 2^i |u_i|
//                                 - ox fw sum 2^j |v_j| + ox ow (how many there are)
//
// with |.| for the count of bits. Positions outside of the image are left out, so that they are 0.
#include "compiler/graph/Bits.h"

#include "compiler/graph/IndexCode.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// Arithmetic on the words of one element.
struct WordCode {
  const IndexCode &code;

  Value number(int64_t value) const {
    return code.make<arith::ConstantOp>(code.builder.getI64IntegerAttr(value));
  }
  Value wide(Value word) const {
    Type i64 = code.builder.getI64Type();
    return word.getType() == i64 ? word : code.make<arith::ExtUIOp>(i64, word);
  }
  Value count(Value word) const { return wide(code.make<math::CtPopOp>(word)); }
  Value addTimes(Value sum, Value value, int64_t factor) const {
    if (factor == 0)
      return sum;
    return code.make<arith::AddIOp>(sum, code.make<arith::MulIOp>(value, number(factor)));
  }
};

/// Where an element's window reads the image.
struct Source {
  SmallVector<Value> indices; // without those of the group, the plane and the word
  Value inside;
  bool mayBeEmpty = false;
};

Source sourceOf(const IndexCode &code, const BitWindow &of, RankedTensorType x, ValueRange indices,
                ValueRange position) {
  Source source{{indices[0]}, {}};
  for (int64_t dim = 0; dim < of.spatial(); ++dim) {
    Value index = code.add(code.mul(indices[1 + dim], of.strides[dim]), -of.pads[dim]);
    index = code.add(index, code.mul(position[dim], of.dilations[dim]));
    if (of.pads[dim] != 0 || of.pads[dim + of.spatial()] != 0) {
      Value size = code.context.operandSize(0, unsigned(1 + dim));
      source.inside = code.both(source.inside, code.within(index, size));
      source.mayBeEmpty |= x.isDynamicDim(1 + dim) || x.getDimSize(1 + dim) == 0;
      index = code.clamp(index, size);
    }
    source.indices.push_back(index);
  }
  return source;
}

} // namespace

bool BitPackOp::isMovement() { return false; }

Value BitPackOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this))
    return {};
  IndexCode code(context);
  int64_t axis = getAxis(), planes = getPlanes(), word = getWord();
  SmallVector<Value> source(indices);
  Value plane = source[size_t(planes)];
  source.erase(source.begin() + planes);
  Value first = code.mul(source[size_t(axis)], word);
  Value size = context.operandSize(0, unsigned(axis));
  Type type = context.builder.getIntegerType(unsigned(word)), i8 = context.builder.getI8Type();
  auto cast = [&](Value index, Type to) { return code.make<arith::IndexCastUIOp>(to, index); };
  Value by = cast(plane, i8);
  Value none = context.builder.create<arith::ConstantIntOp>(context.location, 0, type);
  Value one = context.builder.create<arith::ConstantIntOp>(context.location, 1, i8);
  Value bits = context.builder.create<arith::MinUIOp>(context.location, code.sub(size, first),
                                                      code.constant(word));
  return context.loop({bits}, {none}, [&](ValueRange at, ValueRange carried) -> SmallVector<Value> {
    source[size_t(axis)] = code.add(first, at[0]);
    Value codeOf = context.operand(0, source);
    Value bit = code.make<arith::AndIOp>(code.make<arith::ShRUIOp>(codeOf, by), one);
    if (type != i8)
      bit = code.make<arith::ExtUIOp>(type, bit);
    Value moved = code.make<arith::ShLIOp>(bit, cast(at[0], type));
    return {code.make<arith::OrIOp>(carried[0], moved)};
  })[0];
}

bool BitConvOp::isMovement() { return false; }

Value BitConvOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  auto of = bitWindowOf(*this);
  if (!of || !hasKernelTypes(*this))
    return {};
  IndexCode code(context);
  WordCode words{code};
  auto x = cast<RankedTensorType>(getX().getType());
  Value filter = indices.back(), perGroup = code.constant(of->filters);
  Value group = code.div(filter, perGroup), inGroup = code.rem(filter, perGroup);
  Value width = code.constant(of->width);
  Value block = code.div(inGroup, width), lane = code.rem(inGroup, width);
  SmallVector<Value> extents;
  for (int64_t size : of->kernel)
    extents.push_back(code.constant(size));
  extents.push_back(code.constant(of->words));
  Value zero = words.number(0);
  auto terms = [&](ValueRange position, Value sum) {
    Source source = sourceOf(code, *of, x, indices, position);
    Value none = zeroElement(context, getX());
    SmallVector<Value> left, right;
    for (int64_t plane = 0; plane < of->x.bits; ++plane) {
      SmallVector<Value> at(source.indices);
      at.append({group, code.constant(plane), position.back()});
      auto read = [&] { return context.operand(0, at); };
      left.push_back(source.inside ? readWhere(code, source.inside, source.mayBeEmpty, none, read)
                                   : read());
    }
    for (int64_t plane = 0; plane < of->w.bits; ++plane) {
      SmallVector<Value> at{group, block, code.constant(plane)};
      llvm::append_range(at, position);
      at.push_back(lane);
      right.push_back(context.operand(1, at));
    }
    Value offset = zero;
    for (int64_t i = 0; i < of->x.bits; ++i) {
      sum = words.addTimes(sum, words.count(left[i]), -(of->x.factor * of->w.offset << i));
      for (int64_t j = 0; j < of->w.bits; ++j)
        sum = words.addTimes(sum, words.count(code.make<arith::AndIOp>(left[i], right[j])),
                             of->x.factor * of->w.factor << (i + j));
    }
    if (of->x.offset == 0)
      return sum;
    for (int64_t j = 0; j < of->w.bits; ++j)
      offset = words.addTimes(offset, words.count(right[j]), -(of->x.offset * of->w.factor << j));
    Value channels = context.builder.create<arith::MinUIOp>(
        context.location,
        code.sub(code.constant(of->channels), code.mul(position.back(), of->wordBits)),
        code.constant(of->wordBits));
    Value count = code.make<arith::IndexCastUIOp>(context.builder.getI64Type(), channels);
    offset = words.addTimes(offset, count, of->x.offset * of->w.offset);
    if (source.inside)
      offset = code.select(source.inside, offset, zero);
    return Value(code.make<arith::AddIOp>(sum, offset));
  };
  Value sum = context.loop(extents, {zero},
                           [&](ValueRange position, ValueRange carried) -> SmallVector<Value> {
                             return {terms(position, carried[0])};
                           })[0];
  return code.make<arith::TruncIOp>(context.builder.getI32Type(), sum);
}

} // namespace tensmith::graph
