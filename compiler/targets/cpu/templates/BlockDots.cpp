// Rows in 8 bits times blocks; see BlockDots.h.
#include "compiler/targets/cpu/templates/BlockDots.h"

#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kRun = 16;  // elements that lie side by side wherever they are
constexpr double kMost = 127; // of a number in 8 bits
constexpr int64_t kDepth = 4; // products of a lane

} // namespace

std::optional<BlockDots> BlockDots::of(IndexMath &math, const BlockFormat &format, int64_t columns,
                                       int64_t vectorBytes, const Intrinsic *products) {
  BlockDots dots(math, format, columns, products);
  bool isUsable = products && products->rows == 1 && products->depth == kDepth &&
                  format.plain == DataType::Undefined &&
                  dots.plan(std::min<int64_t>(vectorBytes, 64));
  return isUsable ? std::optional(dots) : std::nullopt;
}

/// Finds the chunks; false where digits don't lie in runs.
bool BlockDots::plan(int64_t vectorBytes) {
  const BitPlane &main = format_->planes[0];
  int64_t bytes = format_->elements / main.digits();
  if (!main.bits || main.span < kRun || main.count != format_->elements || format_->group % kRun)
    return false;
  for (blocks_ = std::max<int64_t>(vectorBytes / bytes, 1); columns_ / format_->elements % blocks_;)
    blocks_ /= 2;
  int64_t width = std::min(vectorBytes, blocks_ * bytes);
  if (blocks_ * bytes % width)
    return false;
  order_.assign(size_t(elements()), 0);
  // By byte and digit, the element.
  llvm::SmallVector<llvm::SmallVector<Place>> places(
      size_t(main.digits()), llvm::SmallVector<Place>(size_t(blocks_ * bytes)));
  for (int64_t block = 0; block < blocks_; ++block)
    for (int element = 0; element < format_->elements; ++element)
      places[size_t(main.digitOf(element))]
            [size_t(block * bytes + main.byteOf(element) - main.offset)] = {block, element};
  for (int64_t first = 0; first < blocks_ * bytes; first += width)
    for (const auto &digit : places) {
      for (int64_t i = 0; i < width; ++i) {
        const Place &place = digit[size_t(first + i)];
        order_[size_t(place.block * format_->elements + place.element)] =
            int64_t(chunks_.size()) * width + i;
      }
      chunks_.emplace_back(digit.begin() + first, digit.begin() + first + width);
    }
  bias_ = format_->isSigned ? 128 : format_->bias;
  double least = 0;
  for (float level : format_->levels) {
    if (level != std::floor(level))
      unit_ = 0.5;
    least = std::min<double>(least, level);
  }
  if (!format_->levels.empty())
    bias_ = int64_t(-least / unit_);
  return true;
}

// ---- x

void BlockDots::round(Value x, Value scratch, Order order, Bias bias) {
  emitFor(*math_, math_->constant(0), math_->constant(strips()), math_->constant(1),
          [&](Value strip) {
            for (int64_t group = 0; group < groups(); ++group)
              roundGroup(x, scratch, strip, group, order, bias);
          });
}

void BlockDots::roundGroup(Value x, Value scratch, Value strip, int64_t group, Order order,
                           Bias bias) {
  Value first = math_->add(math_->mul(strip, elements()), group * format_->group);
  Type f32 = builder().getF32Type(), wide = f32s(kRun);
  llvm::SmallVector<Value> parts;
  Value most;
  for (int64_t i = 0; i < format_->group; i += kRun) {
    parts.push_back(load(wide, x, math_->mul(math_->add(first, i), 4)));
    Value size = create<math::AbsFOp>(parts.back());
    most = most ? Value(create<arith::MaximumFOp>(most, size)) : size;
  }
  for (int64_t lanes = kRun / 2; lanes > 0; lanes /= 2) {
    llvm::SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < lanes; ++lane)
      low.push_back(lane), high.push_back(lane + lanes);
    most = create<arith::MaximumFOp>(Value(create<vector::ShuffleOp>(most, most, low)),
                                     Value(create<vector::ShuffleOp>(most, most, high)));
  }
  most = create<vector::ExtractOp>(most, int64_t(0));
  Value isZero = create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, most, reals(0, f32));
  Value scale = create<arith::MulFOp>(most, reals(1 / kMost, f32));
  Value inverse = create<arith::SelectOp>(isZero, reals(0, f32),
                                          Value(create<arith::DivFOp>(reals(kMost, f32), most)));
  Value factor = create<vector::SplatOp>(wide, inverse);
  // What is added leaves the number, rounded to even, in the lower bits.
  constexpr double kMagic = 12582912;
  auto words = VectorType::get({kRun}, builder().getI32Type());
  auto small = VectorType::get({kRun}, builder().getI8Type());
  Value sum;
  for (auto [i, part] : llvm::enumerate(parts)) {
    Value shifted =
        create<arith::AddFOp>(Value(create<arith::MulFOp>(part, factor)), reals(kMagic, wide));
    Value rounded = create<arith::SubFOp>(shifted, reals(kMagic, wide));
    sum = sum ? Value(create<arith::AddFOp>(sum, rounded)) : rounded;
    Value code = create<arith::TruncIOp>(small, Value(create<arith::BitcastOp>(words, shifted)));
    int64_t element = group * format_->group + int64_t(i) * kRun;
    int64_t at = order == Order::Chunks ? order_[size_t(element)] : element;
    store(code, scratch, math_->add(math_->mul(strip, elements()), at));
  }
  Value place = math_->mul(math_->add(math_->mul(strip, groups()), group), 4);
  store(scale, scratch, math_->add(place, scalesAt()));
  sum = sumOfLanes(*math_, sum);
  if (bias == Bias::Whole && hasBiasAlone()) { // an infinity's is NaN, which has no integer
    Value isNumber = create<arith::CmpFOp>(arith::CmpFPredicate::ORD, sum, sum);
    sum = create<arith::SelectOp>(isNumber, sum, reals(0, f32));
    sum = create<arith::FPToSIOp>(builder().getI32Type(),
                                  Value(create<arith::MulFOp>(sum, reals(-double(bias_), f32))));
  } else
    sum = create<arith::MulFOp>(sum, scale);
  store(sum, scratch, math_->add(place, sumsAt()));
}

// ---- Weights

BlockDots::Sums BlockDots::zeros() { return {reals(0, f32s(lanes())), reals(0, f32s(groups()))}; }

void BlockDots::add(ArrayRef<Value> rows, Value index, Value scratch, MutableArrayRef<Sums> sums) {
  Value place = math_->mul(index, groups() * 4), first = math_->mul(index, elements());
  Value xScales = load(f32s(groups()), scratch, math_->add(place, scalesAt()));
  Value xSums = load(f32s(groups()), scratch, math_->add(place, sumsAt()));
  llvm::SmallVector<Value> scalesOf;
  for (auto [row, sum] : llvm::zip_equal(rows, sums)) {
    Value offsets, scale = scales(row, offsets);
    if (hasBiasAlone())
      offsets = create<arith::MulFOp>(scale, reals(-double(bias_), scale.getType()));
    scalesOf.push_back(create<arith::MulFOp>(scale, xScales));
    if (offsets)
      sum.offsets = multiplyAdd(offsets, xSums, sum.offsets);
  }
  auto words = VectorType::get({lanes()}, builder().getI32Type());
  Value zero = create<arith::ConstantOp>(cast<TypedAttr>(builder().getZeroAttr(words)));
  for (auto [number, chunk] : llvm::enumerate(chunks_)) {
    auto width = int64_t(chunk.size());
    Value x = load(VectorType::get({width}, builder().getI8Type()), scratch,
                   math_->add(first, int64_t(number) * width));
    llvm::SmallVector<int64_t> groupOf = groupsOf(chunk);
    for (size_t row = 0; row < rows.size(); ++row) {
      Value product = products_->emit(builder(), math_->location, codes(rows[row], chunk), x, zero);
      Value real = create<arith::SIToFPOp>(f32s(lanes()), product);
      Value scale = create<vector::ShuffleOp>(scalesOf[row], scalesOf[row], groupOf);
      sums[row].products = multiplyAdd(real, scale, sums[row].products);
    }
  }
}

llvm::SmallVector<int64_t> BlockDots::groupsOf(const Chunk &chunk) const {
  llvm::SmallVector<int64_t> groups;
  for (size_t byte = 0; byte < chunk.size(); byte += kDepth)
    groups.push_back((chunk[byte].block * format_->elements + chunk[byte].element) /
                     format_->group);
  return groups;
}

Value BlockDots::total(const Sums &sums) {
  return create<arith::AddFOp>(sumOfLanes(*math_, sums.products), sumOfLanes(*math_, sums.offsets));
}

Value BlockDots::lanesOf(const Sums &sums) {
  Value offsets = sums.offsets;
  auto size = groups();
  auto part = [&](int64_t first, int64_t count) -> Value {
    return create<vector::ShuffleOp>(offsets, offsets,
                                     llvm::to_vector(llvm::seq<int64_t>(first, first + count)));
  };
  for (; size > lanes(); size /= 2)
    offsets = create<arith::AddFOp>(part(0, size / 2), part(size / 2, size / 2));
  llvm::SmallVector<int64_t> places(size_t(lanes()), size); // of a zero
  std::iota(places.begin(), places.begin() + size, 0);
  return create<arith::AddFOp>(
      sums.products, Value(create<vector::ShuffleOp>(offsets, reals(0, f32s(size)), places)));
}

/// Of each group of a strip: what bytes are multiplied by, and what the format adds to each number.
Value BlockDots::scales(Value row, Value &offsets) {
  Value scale;
  if (blocks_ > 1 && hasHalves()) {
    llvm::SmallVector<Value> blocks;
    for (int64_t block = 0; block < blocks_; ++block)
      blocks.push_back(at(row, math_->constant(block * format_->bytes)));
    return scalesOfBlocks(blocks, offsets);
  }
  llvm::SmallVector<Value> scaleParts, offsetParts;
  for (int64_t block = 0; block < blocks_; ++block) {
    BlockCodes::Vectors of = codes_.vectors(at(row, math_->constant(block * format_->bytes)));
    scaleParts.push_back(of.scale);
    if (of.offset)
      offsetParts.push_back(of.offset);
  }
  scale = joined(scaleParts);
  if (!offsetParts.empty())
    offsets = joined(offsetParts);
  return inUnits(scale);
}

/// Of blocks that are one group each, with a scale and perhaps an offset in f16: vectors of them.
Value BlockDots::scalesOfBlocks(ArrayRef<Value> blocks, Value &offsets) {
  if (format_->hasOffset()) {
    offsets = halves(blocks, format_->offsetAt);
    offsets = create<arith::MulFOp>(offsets, reals(format_->offsetSign, offsets.getType()));
  }
  return inUnits(halves(blocks, format_->scaleAt));
}

bool BlockDots::hasHalves() const {
  return format_->scale == BlockScale::F16 && format_->group == format_->elements &&
         (!format_->hasOffset() || format_->offset == BlockOffset::F16);
}

/// What bytes are multiplied by, of what levels are.
Value BlockDots::inUnits(Value scale) {
  return unit_ == 1 ? scale : Value(create<arith::MulFOp>(scale, reals(unit_, scale.getType())));
}

/// The element of the strip whose code is at that place among all chunks'.
int64_t BlockDots::elementAt(int64_t place) const {
  auto width = int64_t(chunks_[0].size());
  const Place &of = chunks_[size_t(place / width)][size_t(place % width)];
  return of.block * format_->elements + of.element;
}

/// An f16 of each block, converted together: one by one they take more instructions than all
/// products of a strip.
Value BlockDots::halves(ArrayRef<Value> blocks, int64_t bytes) {
  Type word = builder().getI16Type();
  auto count = int64_t(blocks.size());
  llvm::SmallVector<Value> words;
  for (Value block : blocks)
    words.push_back(load(word, block, math_->constant(bytes)));
  Value packed = create<vector::FromElementsOp>(VectorType::get({count}, word), words);
  Value half = create<arith::BitcastOp>(VectorType::get({count}, builder().getF16Type()), packed);
  return create<arith::ExtFOp>(f32s(count), half);
}

Value BlockDots::codes(Value row, const Chunk &chunk) {
  Value code;
  for (const BitPlane &plane : format_->planes) {
    Value part = digits(row, plane, chunk);
    if (plane.shift)
      part = create<arith::ShLIOp>(part, bytes(plane.shift, part));
    code = code ? Value(create<arith::OrIOp>(code, part)) : part;
  }
  return multiplied(code);
}

/// The bytes that stand for codes in products.
Value BlockDots::multiplied(Value code) {
  if (format_->isSigned)
    return create<arith::XOrIOp>(code, bytes(-128, code));
  return format_->levels.empty() ? code : levels(code);
}

/// Digits of elements, by one mask where they are the same one of each byte.
Value BlockDots::digits(Value row, const BitPlane &plane, ArrayRef<Place> places) {
  auto count = int64_t(places.size());
  Type i8 = builder().getI8Type();
  if (plane.span == 1 && plane.bits == 1 && count == kRun) { // bits in the order of elements
    Value word = load(builder().getI16Type(), row, math_->constant(startOf(plane, places[0])));
    Value flags = create<LLVM::BitcastOp>(VectorType::get({count}, builder().getI1Type()), word);
    return create<arith::ExtUIOp>(VectorType::get({count}, i8), flags);
  }
  int64_t digit = plane.digitOf(int(places[0].element));
  bool isOne = plane.span > 1 && llvm::all_of(places, [&](const Place &place) {
                 return plane.digitOf(int(place.element)) == digit;
               });
  if (isOne)
    return parted(packed(row, plane, places), plane, digit);
  Value halves[] = {digits(row, plane, places.take_front(size_t(count) / 2)),
                    digits(row, plane, places.drop_front(size_t(count) / 2))};
  return joined(halves);
}

/// The bytes that have the elements' digits: by one load, where they lie side by side, else half by
/// half.
Value BlockDots::packed(Value row, const BitPlane &plane, ArrayRef<Place> places) {
  auto count = int64_t(places.size());
  int64_t first = startOf(plane, places[0]);
  bool isRun = true;
  for (int64_t i = 0; i < count; ++i)
    isRun &= startOf(plane, places[size_t(i)]) == first + i;
  if (isRun)
    return load(VectorType::get({count}, builder().getI8Type()), row, math_->constant(first));
  Value halves[] = {packed(row, plane, places.take_front(size_t(count) / 2)),
                    packed(row, plane, places.drop_front(size_t(count) / 2))};
  return joined(halves);
}
int64_t BlockDots::startOf(const BitPlane &plane, const Place &place) const {
  return place.block * format_->bytes + plane.byteOf(int(place.element));
}

/// That digit of each byte.
Value BlockDots::parted(Value packed, const BitPlane &plane, int64_t digit) {
  if (plane.bits == 8)
    return packed;
  if (digit)
    packed = create<arith::ShRUIOp>(packed, bytes(digit * plane.bits, packed));
  return create<arith::AndIOp>(packed, bytes((1 << plane.bits) - 1, packed));
}

/// The entries of the table, less the smallest, chosen bit by bit.
Value BlockDots::levels(Value codes) {
  llvm::SmallVector<Value> entries;
  for (float level : format_->levels)
    entries.push_back(bytes(int64_t(level / unit_) + bias_, codes));
  for (int64_t bit = 0; entries.size() > 1; ++bit) {
    Value masked = create<arith::AndIOp>(codes, bytes(int64_t(1) << bit, codes));
    Value isSet = create<arith::CmpIOp>(arith::CmpIPredicate::ne, masked, bytes(0, codes));
    llvm::SmallVector<Value> half;
    for (size_t i = 0; i < entries.size(); i += 2)
      half.push_back(create<arith::SelectOp>(isSet, entries[i + 1], entries[i]));
    entries = std::move(half);
  }
  return entries[0];
}

// ---- Words

Value BlockDots::at(Value pointer, Value bytes) { return bytePointer(*math_, pointer, bytes); }
Value BlockDots::load(Type type, Value pointer, Value bytes) {
  return create<LLVM::LoadOp>(type, at(pointer, bytes), /*alignment=*/1u);
}
void BlockDots::store(Value value, Value pointer, Value bytes) {
  builder().create<LLVM::StoreOp>(math_->location, value, at(pointer, bytes), /*alignment=*/1u);
}

/// Vectors of one length, a power of two of them.
Value BlockDots::joined(ArrayRef<Value> parts) {
  llvm::SmallVector<Value> left(parts);
  while (left.size() > 1) {
    llvm::SmallVector<Value> pairs;
    auto size = cast<VectorType>(left[0].getType()).getDimSize(0);
    auto all = llvm::to_vector(llvm::seq<int64_t>(0, 2 * size));
    for (size_t i = 0; i < left.size(); i += 2)
      pairs.push_back(create<vector::ShuffleOp>(left[i], left[i + 1], all));
    left = std::move(pairs);
  }
  return left[0];
}

Value BlockDots::bytes(int64_t value, Value like) {
  auto type = cast<VectorType>(like.getType());
  auto one = builder().getIntegerAttr(type.getElementType(), llvm::APInt(8, uint64_t(value)));
  return create<arith::ConstantOp>(
      cast<TypedAttr>(mlir::Attribute(DenseElementsAttr::get(type, mlir::Attribute(one)))));
}
Value BlockDots::reals(double value, Type like) {
  mlir::Attribute one = builder().getF32FloatAttr(float(value));
  if (auto vector = dyn_cast<VectorType>(like))
    one = DenseElementsAttr::get(vector, one);
  return create<arith::ConstantOp>(cast<TypedAttr>(one));
}
VectorType BlockDots::f32s(int64_t lanes) const {
  return VectorType::get({lanes}, math_->builder.getF32Type());
}
Value BlockDots::multiplyAdd(Value a, Value b, Value sum) {
  auto flags =
      arith::FastMathFlagsAttr::get(builder().getContext(), arith::FastMathFlags::contract);
  Value product = create<arith::MulFOp>(a, b, flags);
  return create<arith::AddFOp>(product, sum, flags);
}

} // namespace tensmith::kernel
