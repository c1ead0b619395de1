// Reading numbers in blocks of few bits; see BlockCodes.h.
#include "compiler/targets/cpu/templates/BlockCodes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>

using namespace mlir;
using mlir::Attribute;

namespace tensmith::kernel {

Value BlockCodes::splat(Value scalar) {
  return lanes_ == 1 ? scalar
                     : create<vector::SplatOp>(withLanes(scalar.getType(), lanes_), scalar);
}

BlockCodes::Vectors BlockCodes::vectors(Value block) {
  auto reals = VectorType::get({format_.groups()}, builder().getF32Type());
  auto each = [&](Value scalar, std::span<const GroupInteger> groups, int64_t flip, int64_t bias) {
    Value all = create<vector::SplatOp>(reals, scalar);
    if (groups.empty())
      return all;
    Value number = integers(block, groups);
    if (flip)
      number = create<arith::XOrIOp>(number, integer(flip, number.getType()));
    if (bias)
      number = create<arith::SubIOp>(number, integer(bias, number.getType()));
    return Value(create<arith::MulFOp>(Value(create<arith::SIToFPOp>(reals, number)), all));
  };
  Vectors result;
  result.scale = each(blockScale(block), format_.scales, format_.scaleFlip, format_.scaleBias);
  if (format_.hasOffset()) {
    result.offset = each(offset(block), format_.offsets, 0, 0);
  }
  return result;
}

BlockCodes::Scales BlockCodes::scales(Value block) {
  Scales result;
  auto groups = size_t(format_.groups());
  if (format_.plain != DataType::Undefined) {
    result.scale.assign(groups, real(1, builder().getF32Type()));
    result.offset.assign(groups, Value());
    return result;
  }
  Vectors all = vectors(block);
  if (format_.bias)
    all.offset = create<arith::MulFOp>(all.scale, real(-double(format_.bias), all.scale.getType()));
  for (size_t group = 0; group < groups; ++group) {
    auto at = [&](Value vector) -> Value {
      return vector ? create<vector::ExtractOp>(vector, int64_t(group)) : vector;
    };
    result.scale.push_back(at(all.scale));
    result.offset.push_back(at(all.offset));
  }
  return result;
}

Value BlockCodes::codes(Value block, int64_t first) {
  Type reals = withLanes(builder().getF32Type(), lanes_);
  if (format_.plain != DataType::Undefined) {
    int64_t bytes = byteSize(format_.plain);
    if (format_.plain == DataType::F32)
      return load(reals, block, first * bytes);
    Type half = format_.plain == DataType::F16 ? Type(builder().getF16Type())
                                               : Type(builder().getBF16Type());
    return create<arith::ExtFOp>(reals, load(withLanes(half, lanes_), block, first * bytes));
  }
  Value code;
  for (const BitPlane &plane : format_.planes) {
    if (first < plane.first || first >= plane.first + plane.count)
      continue;
    Value part = digits(block, plane, first);
    if (plane.shift)
      part = create<arith::ShLIOp>(part, integer(plane.shift, part.getType()));
    code = code ? Value(create<arith::OrIOp>(code, part)) : part;
  }
  return format_.levels.empty() ? Value(create<arith::SIToFPOp>(reals, code)) : levels(code);
}

/// The plane's digits of the elements from `first` on, as vectors of i32.
Value BlockCodes::digits(Value block, const BitPlane &plane, int64_t first) {
  SmallVector<int64_t> bytes, digits;
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    bytes.push_back(plane.byteOf(int(first + lane)));
    digits.push_back(plane.digitOf(int(first + lane)));
  }
  int64_t least = *llvm::min_element(bytes), most = *llvm::max_element(bytes);
  Value packed = load(VectorType::get({most - least + 1}, builder().getI8Type()), block, least);
  for (int64_t &byte : bytes)
    byte -= least;
  packed = shuffled(packed, bytes);
  Type words = withLanes(builder().getI32Type(), lanes_);
  if (format_.isSigned)
    return create<arith::ExtSIOp>(words, packed);
  Value wide = create<arith::ExtUIOp>(words, packed);
  if (plane.bits == 8)
    return wide;
  if (!plane.bits) { // digit d: the fraction times 3^d, modulo 1, times 3, its whole part
    SmallVector<int32_t> powers;
    for (int64_t digit : digits)
      powers.push_back(int32_t(std::pow(3, digit)));
    Value rest = create<arith::AndIOp>(Value(create<arith::MulIOp>(wide, constants(powers))),
                                       integer(255, words));
    return create<arith::ShRUIOp>(Value(create<arith::MulIOp>(rest, integer(3, words))),
                                  integer(8, words));
  }
  SmallVector<int32_t> shifts;
  for (int64_t digit : digits)
    shifts.push_back(int32_t(digit * plane.bits));
  if (llvm::any_of(shifts, [](int32_t shift) { return shift != 0; }))
    wide = create<arith::ShRUIOp>(wide, constants(shifts));
  bool isTop = llvm::all_of(shifts, [&](int32_t shift) { return shift == 8 - plane.bits; });
  return isTop ? wide : Value(create<arith::AndIOp>(wide, integer((1 << plane.bits) - 1, words)));
}

/// The entries of the table, chosen bit by bit.
Value BlockCodes::levels(Value codes) {
  Type reals = withLanes(builder().getF32Type(), lanes_), words = codes.getType();
  SmallVector<Value> entries;
  for (float level : format_.levels)
    entries.push_back(real(level, reals));
  for (int64_t bit = 0; entries.size() > 1; ++bit) {
    Value isSet = create<arith::CmpIOp>(
        arith::CmpIPredicate::ne,
        Value(create<arith::AndIOp>(codes, integer(int64_t(1) << bit, words))), integer(0, words));
    SmallVector<Value> half;
    for (size_t i = 0; i < entries.size(); i += 2)
      half.push_back(create<arith::SelectOp>(isSet, entries[i + 1], entries[i]));
    entries = std::move(half);
  }
  return entries[0];
}

/// The integers of all groups, as a vector of i32.
Value BlockCodes::integers(Value block, std::span<const GroupInteger> groups) {
  int64_t least = format_.bytes, most = 0;
  bool isSplit = false;
  SmallVector<ScaleBits> low, high;
  for (const GroupInteger &group : groups) {
    low.push_back(group.low), high.push_back(group.high);
    for (const ScaleBits &bits : {group.low, group.high})
      if (bits.mask) {
        least = std::min<int64_t>(least, bits.byte);
        most = std::max<int64_t>(most, bits.byte);
      }
    isSplit |= group.high.mask != 0;
  }
  Value bytes = load(VectorType::get({most - least + 1}, builder().getI8Type()), block, least);
  Value result = bitsOf(bytes, least, low);
  return isSplit ? Value(create<arith::OrIOp>(result, bitsOf(bytes, least, high))) : result;
}

Value BlockCodes::bitsOf(Value bytes, int64_t at, ArrayRef<ScaleBits> bits) {
  SmallVector<int64_t> places;
  SmallVector<int32_t> shifts, masks, ups;
  for (const ScaleBits &one : bits) {
    places.push_back(one.mask ? one.byte - at : 0);
    shifts.push_back(one.shift), masks.push_back(one.mask), ups.push_back(one.up);
  }
  Type words = VectorType::get({int64_t(bits.size())}, builder().getI32Type());
  Value value = create<arith::ExtUIOp>(words, shuffled(bytes, places));
  value = create<arith::AndIOp>(Value(create<arith::ShRUIOp>(value, constants(shifts))),
                                constants(masks));
  return create<arith::ShLIOp>(value, constants(ups));
}

/// What is added to each number of a block.
Value BlockCodes::offset(Value block) {
  Type f32 = builder().getF32Type();
  if (format_.offset == BlockOffset::F32)
    return load(f32, block, format_.offsetAt);
  Value offset, factor = real(format_.offsetSign, f32);
  if (format_.offset == BlockOffset::Zero) {
    Value zero = load(builder().getI8Type(), block, format_.offsetAt);
    offset = create<arith::MulFOp>(Value(create<arith::UIToFPOp>(f32, zero)), real(-1, f32));
    factor = blockScale(block);
  } else {
    offset = halfAt(block, format_.offsetAt);
  }
  return format_.offset == BlockOffset::F16 && format_.offsetSign == 1
             ? offset
             : create<arith::MulFOp>(offset, factor);
}

Value BlockCodes::blockScale(Value block) {
  Type f32 = builder().getF32Type();
  if (format_.scale == BlockScale::F32)
    return load(f32, block, format_.scaleAt);
  if (format_.scale == BlockScale::F16)
    return halfAt(block, format_.scaleAt);
  if (format_.scale == BlockScale::One)
    return real(1, f32);
  // 2^(e - 127): an f32's exponent, but of 0 and 255, which are the subnormal 2^-127 and NaN.
  Type word = builder().getI32Type();
  Value exponent =
      create<arith::ExtUIOp>(word, load(builder().getI8Type(), block, format_.scaleAt));
  auto is = [&](int64_t code) -> Value {
    return create<arith::CmpIOp>(arith::CmpIPredicate::eq, exponent, integer(code, word));
  };
  Value bits = create<arith::ShLIOp>(exponent, integer(23, word));
  bits = create<arith::SelectOp>(is(0), integer(1 << 22, word), bits);
  bits = create<arith::SelectOp>(is(255), integer(0x7fc00000, word), bits);
  return create<arith::BitcastOp>(f32, bits);
}

Value BlockCodes::shuffled(Value bytes, ArrayRef<int64_t> lanes) {
  auto size = cast<VectorType>(bytes.getType()).getDimSize(0);
  bool isSame = int64_t(lanes.size()) == size;
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    isSame &= lanes[lane] == int64_t(lane);
  return isSame ? bytes : create<vector::ShuffleOp>(bytes, bytes, lanes);
}

Value BlockCodes::load(Type type, Value block, int64_t bytes) {
  Value at = bytePointer(math_, block, math_.constant(bytes));
  return create<LLVM::LoadOp>(type, at, /*alignment=*/1u);
}

Value BlockCodes::halfAt(Value block, int64_t bytes) {
  return create<arith::ExtFOp>(builder().getF32Type(), load(builder().getF16Type(), block, bytes));
}

Value BlockCodes::constants(ArrayRef<int32_t> values) {
  auto type = VectorType::get({int64_t(values.size())}, builder().getI32Type());
  return create<arith::ConstantOp>(DenseElementsAttr::get(type, values));
}

Value BlockCodes::integer(int64_t value, Type like) {
  Attribute one = builder().getIntegerAttr(getElementTypeOrSelf(like), value);
  return splatOf(one, like);
}
Value BlockCodes::real(double value, Type like) {
  return splatOf(builder().getF32FloatAttr(float(value)), like);
}
Value BlockCodes::splatOf(Attribute one, Type like) {
  auto vector = dyn_cast<VectorType>(like);
  if (vector)
    one = DenseElementsAttr::get(vector, one);
  return create<arith::ConstantOp>(cast<TypedAttr>(one));
}

} // namespace tensmith::kernel
