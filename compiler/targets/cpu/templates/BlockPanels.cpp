// Rows in 8 bits times panels of blocks; see BlockPanels.h.
#include "compiler/targets/cpu/templates/BlockPanels.h"

#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <map>

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kDepth = 4; // products of a lane

} // namespace

int64_t BlockPanels::rowBytes() const { return int64_t(llvm::alignTo(dots_.scratchBytes(), 64)); }
int64_t BlockPanels::bytes() const { return 2 * stripOffsetsAt() - stripScalesAt(); }

// ---- Weights

void BlockPanels::unpack(llvm::function_ref<Value(Value)> rowOf, Value panel) {
  IndexMath &math = *dots_.math_;
  Value zero = math.constant(0), one = math.constant(1);
  llvm::SmallVector<Value> rows;
  for (int64_t lane = 0; lane < lanes_; ++lane)
    rows.push_back(rowOf(math.constant(lane)));
  emitFor(math, zero, math.constant(dots_.strips()), one, [&](Value strip) {
    Value begin = math.mul(strip, dots_.stripBytes());
    Value group = math.mul(strip, dots_.groups() * lanes_ * 4);
    codesOfRows(rows, begin, math.mul(strip, dots_.elements() * lanes_), panel);
    if (dots_.hasHalves())
      return scalesOfRows(rows, begin, group, panel);
    emitFor(math, zero, math.constant(lanes_), one, [&](Value lane) {
      takeScales(dots_.at(rowOf(lane), begin), math.mul(lane, dots_.groups() * 4), panel);
    });
    giveScales(group, panel);
  });
}

/// Of a strip, codes or bytes of several of them, turned in registers: each four codes of a row are
/// in a line of their elements.
void BlockPanels::codesOfRows(ArrayRef<Value> rows, Value begin, Value to, Value panel) {
  IndexMath &math = *dots_.math_;
  const BitPlane &plane = dots_.format_->planes[0];
  int64_t together = isPacked() ? plane.digits() : 1;
  auto width = int64_t(dots_.chunks_[0].size());
  VectorType words = VectorType::get({lanes_}, dots_.builder().getI32Type()),
             bytes = VectorType::get({lanes_ * kDepth}, dots_.builder().getI8Type());
  llvm::SmallVector<Value> starts;
  for (Value row : rows)
    starts.push_back(dots_.at(row, begin));
  for (size_t first = 0; first < dots_.chunks_.size(); first += size_t(together)) {
    llvm::SmallVector<Value> parts, vectors;
    for (Value start : starts) {
      const BlockDots::Chunk &chunk = dots_.chunks_[first];
      parts.push_back(isPacked() ? dots_.packed(start, plane, chunk) : dots_.codes(start, chunk));
    }
    int64_t ofRow = width / kDepth;
    for (int64_t i = 0; i < ofRow; ++i) {
      auto rowsOfVector = ArrayRef(parts).slice(size_t(i * lanes_ / ofRow), size_t(lanes_ / ofRow));
      vectors.push_back(create<vector::BitCastOp>(words, dots_.joined(rowsOfVector)));
    }
    for (auto [column, vector] : llvm::enumerate(interleaved(std::move(vectors))))
      for (int64_t digit = 0; digit < together; ++digit) {
        Value codes = create<vector::BitCastOp>(bytes, vector);
        if (isPacked())
          codes = dots_.multiplied(dots_.parted(codes, plane, digit));
        int64_t place = (int64_t(first) + digit) * width + int64_t(column) * kDepth;
        int64_t line = dots_.elementAt(place) / kDepth;
        dots_.store(codes, panel, math.add(to, line * lanes_ * kDepth));
      }
  }
}

void BlockPanels::takeScales(Value row, Value place, Value panel) {
  IndexMath &math = *dots_.math_;
  Value offsets, scales = dots_.scales(row, offsets);
  dots_.store(scales, panel, math.add(place, stripScalesAt()));
  if (offsets)
    dots_.store(offsets, panel, math.add(place, stripOffsetsAt()));
}

void BlockPanels::giveScales(Value to, Value panel) {
  turn(stripScalesAt(), dots_.math_->add(to, scalesAt()), panel);
  if (dots_.format_->hasOffset())
    turn(stripOffsetsAt(), dots_.math_->add(to, offsetsAt()), panel);
}

/// Transposes `lanes` rows of a strip's scales, which are at `from` in the panel.
void BlockPanels::turn(int64_t from, Value to, Value panel) {
  IndexMath &math = *dots_.math_;
  auto words = VectorType::get({lanes_}, dots_.builder().getI32Type());
  int64_t columns = dots_.groups();
  int64_t count = std::min(columns, lanes_), pitch = std::max(columns, lanes_);
  for (int64_t first = 0; first < columns; first += count) {
    llvm::SmallVector<Value> vectors;
    for (int64_t i = 0; i < count; ++i)
      vectors.push_back(dots_.load(words, panel, math.constant(from + (i * pitch + first) * 4)));
    for (auto [i, vector] : llvm::enumerate(interleaved(std::move(vectors))))
      dots_.store(vector, panel, math.add(to, (first + int64_t(i)) * lanes_ * 4));
  }
}

/// Scales of one group of all rows are converted together, and need not be turned.
void BlockPanels::scalesOfRows(ArrayRef<Value> rows, Value begin, Value to, Value panel) {
  IndexMath &math = *dots_.math_;
  for (int64_t group = 0; group < dots_.groups(); ++group) {
    llvm::SmallVector<Value> blocks;
    for (Value row : rows)
      blocks.push_back(dots_.at(row, math.add(begin, group * dots_.format_->bytes)));
    Value offsets, scales = dots_.scalesOfBlocks(blocks, offsets);
    Value place = math.add(to, group * lanes_ * 4);
    dots_.store(scales, panel, math.add(place, scalesAt()));
    if (offsets)
      dots_.store(offsets, panel, math.add(place, offsetsAt()));
  }
}

/// Takes the first half and the second by turns, which moves the uppermost bit of a word's number
/// to its lower end. As often as a row's number has bits, that transposes.
llvm::SmallVector<Value> BlockPanels::interleaved(llvm::SmallVector<Value> vectors) {
  llvm::SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < lanes_ / 2; ++lane) {
    low.append({lane, lanes_ + lane});
    high.append({lanes_ / 2 + lane, lanes_ + lanes_ / 2 + lane});
  }
  for (int64_t step = 1; step < lanes_ && vectors.size() > 1; step *= 2) {
    llvm::SmallVector<Value> next;
    for (size_t i = 0; i < vectors.size() / 2; ++i)
      for (const auto &half : {low, high})
        next.push_back(
            create<vector::ShuffleOp>(vectors[i], vectors[i + vectors.size() / 2], half));
    vectors = std::move(next);
  }
  return vectors;
}

// ---- Products

llvm::SmallVector<Value> BlockPanels::multiply(ArrayRef<Value> rows, Value panel) {
  IndexMath &math = *dots_.math_;
  OpBuilder &builder = dots_.builder();
  Type word = builder.getI32Type(), f32 = builder.getF32Type();
  auto words = VectorType::get({lanes_}, word);
  VectorType bytes = VectorType::get({kDepth * lanes_}, builder.getI8Type()),
             reals = dots_.f32s(lanes_);
  Value zero = create<arith::ConstantOp>(cast<TypedAttr>(builder.getZeroAttr(words)));
  llvm::SmallVector<Value> initial(rows.size(), dots_.reals(0, reals));
  auto addGroup = [&](Value index, ValueRange carried) {
    Value place = math.mul(index, 4), element = math.mul(index, group());
    llvm::SmallVector<Value> products, next;
    for (Value row : rows)
      products.push_back(dots_.hasBiasAlone() ? splat(word, row, math.add(place, dots_.sumsAt()))
                                              : zero);
    for (int64_t at = 0; at < group(); at += kDepth) {
      Value line = math.add(element, at);
      Value codes = dots_.load(bytes, panel, math.mul(line, lanes_));
      for (auto [row, product] : llvm::zip_equal(rows, products))
        product =
            dots_.products_->emit(builder, math.location, codes, splat(word, row, line), product);
    }
    Value ofLanes = math.mul(place, lanes_);
    Value scale = dots_.load(reals, panel, math.add(ofLanes, scalesAt())), offset;
    if (dots_.format_->hasOffset())
      offset = dots_.load(reals, panel, math.add(ofLanes, offsetsAt()));
    for (auto [row, product, sum] : llvm::zip_equal(rows, products, carried)) {
      Value factor =
          create<arith::MulFOp>(scale, splat(f32, row, math.add(place, dots_.scalesAt())));
      next.push_back(dots_.multiplyAdd(create<arith::SIToFPOp>(reals, product), factor, sum));
      if (offset)
        next.back() = dots_.multiplyAdd(offset, splat(f32, row, math.add(place, dots_.sumsAt())),
                                        next.back());
    }
    return next;
  };
  return emitReduction(math, math.constant(0), math.constant(dots_.columns_ / group()),
                       math.constant(1), initial, addGroup);
}

// ---- Products of what is stored

Value BlockPanels::multiplyStored(ArrayRef<Value> starts, Value row,
                                  llvm::function_ref<void(Value)> before) {
  IndexMath &math = *dots_.math_;
  OpBuilder &builder = dots_.builder();
  Type word = builder.getI32Type(), f32 = builder.getF32Type();
  VectorType reals = dots_.f32s(lanes_);
  auto addStrip = [&](Value strip, ValueRange carried) {
    before(strip);
    Value begin = math.mul(strip, dots_.stripBytes());
    Values rows, offsets;
    for (Value start : starts)
      rows.push_back(dots_.at(start, begin));
    Values scales = scalesOfStrip(rows, offsets), products = productsOfStrip(rows, strip, row);
    Value sum = carried[0];
    for (size_t group = 0; group < products.size(); ++group) {
      Value place = math.mul(math.add(math.mul(strip, dots_.groups()), int64_t(group)), 4);
      Value product = products[group];
      if (dots_.hasBiasAlone())
        product = create<arith::AddIOp>(product, splat(word, row, math.add(place, dots_.sumsAt())));
      Value factor =
          create<arith::MulFOp>(scales[group], splat(f32, row, math.add(place, dots_.scalesAt())));
      sum = dots_.multiplyAdd(create<arith::SIToFPOp>(reals, product), factor, sum);
      if (dots_.format_->hasOffset())
        sum = dots_.multiplyAdd(offsets[group], splat(f32, row, math.add(place, dots_.sumsAt())),
                                sum);
    }
    return Values{sum};
  };
  return emitReduction(math, math.constant(0), math.constant(dots_.strips()), math.constant(1),
                       Values{dots_.reals(0, reals)}, addStrip)[0];
}

/// Of each group of the strip the whole products of all rows.
BlockPanels::Values BlockPanels::productsOfStrip(ArrayRef<Value> rows, Value strip, Value row) {
  IndexMath &math = *dots_.math_;
  OpBuilder &builder = dots_.builder();
  Value codes = math.mul(strip, dots_.elements());
  auto width = int64_t(dots_.chunks_[0].size());
  auto words = VectorType::get({dots_.lanes()}, builder.getI32Type());
  Value zero = create<arith::ConstantOp>(cast<TypedAttr>(builder.getZeroAttr(words)));
  // Chunks whose lanes are of the same groups are added up by the instruction.
  std::map<std::vector<int64_t>, Values> products;
  for (auto [number, chunk] : llvm::enumerate(dots_.chunks_)) {
    Value x = dots_.load(VectorType::get({width}, builder.getI8Type()), row,
                         math.add(codes, int64_t(number) * width));
    auto groups = dots_.groupsOf(chunk);
    Values &sums = products[{groups.begin(), groups.end()}];
    sums.resize(rows.size(), zero);
    for (auto [weights, sum] : llvm::zip_equal(rows, sums))
      sum = dots_.products_->emit(builder, math.location, dots_.codes(weights, chunk), x, sum);
  }
  Values result(size_t(dots_.groups()));
  for (auto &[groups, sums] : products)
    addTurned(std::move(sums), groups, result);
  return result;
}

/// Of each group of the strip the scales of all rows, and their offsets where there are some.
BlockPanels::Values BlockPanels::scalesOfStrip(ArrayRef<Value> rows, Values &offsets) {
  IndexMath &math = *dots_.math_;
  auto groups = dots_.groups();
  Values scales(static_cast<size_t>(groups));
  if (dots_.format_->hasOffset())
    offsets.resize(size_t(groups));
  if (dots_.hasHalves()) {
    for (int64_t group = 0; group < groups; ++group) {
      Values blocks;
      for (Value row : rows)
        blocks.push_back(dots_.at(row, math.constant(group * dots_.format_->bytes)));
      Value offset;
      scales[size_t(group)] = dots_.scalesOfBlocks(blocks, offset);
      if (offset)
        offsets[size_t(group)] = offset;
    }
    return scales;
  }
  Values ofRows, offsetsOfRows;
  for (Value row : rows) {
    Value offset;
    ofRows.push_back(dots_.scales(row, offset));
    if (offset)
      offsetsOfRows.push_back(offset);
  }
  auto each = llvm::to_vector(llvm::seq<int64_t>(0, groups));
  addTurned(std::move(ofRows), each, scales);
  if (!offsetsOfRows.empty())
    addTurned(std::move(offsetsOfRows), each, offsets);
  return scales;
}

/// Transposes vectors of rows, whose lane i is of group groupOf[i], and adds up the lanes of a
/// group on the way: to sums[group], a lane of each row. A step takes two rows to one vector: of
/// lanes whose number has a bit, the second row's.
void BlockPanels::addTurned(Values rows, ArrayRef<int64_t> groupOf, MutableArrayRef<Value> sums) {
  auto width = int64_t(groupOf.size());
  if (width > int64_t(rows.size())) { // half by half
    for (int64_t first : {int64_t(0), width / 2}) {
      auto lanes = llvm::to_vector(llvm::seq<int64_t>(first, first + width / 2));
      Values half;
      for (Value row : rows)
        half.push_back(create<vector::ShuffleOp>(row, row, lanes));
      addTurned(std::move(half), groupOf.slice(size_t(first), size_t(width / 2)), sums);
    }
    return;
  }
  struct Part {
    Values vectors;
    llvm::SmallVector<int64_t> groups;
  };
  llvm::SmallVector<Part> parts = {{std::move(rows), llvm::SmallVector<int64_t>(groupOf)}};
  auto plus = [&](Value a, Value b) -> Value {
    return isa<FloatType>(getElementTypeOrSelf(a)) ? Value(create<arith::AddFOp>(a, b))
                                                   : Value(create<arith::AddIOp>(a, b));
  };
  for (int64_t bit = 1; bit < width; bit *= 2) {
    llvm::SmallVector<Part> next;
    for (const Part &part : parts) {
      Part turned[2];
      for (int64_t which : {0, 1}) {
        llvm::SmallVector<int64_t> places;
        for (int64_t lane = 0; lane < width; ++lane) {
          int64_t from = which ? lane | bit : lane & ~bit;
          places.push_back(lane & bit ? width + from : from);
          turned[which].groups.push_back(part.groups[size_t(from)]);
        }
        for (size_t i = 0; i < part.vectors.size(); i += 2)
          turned[which].vectors.push_back(
              create<vector::ShuffleOp>(part.vectors[i], part.vectors[i + 1], places));
      }
      if (turned[0].groups != turned[1].groups) {
        next.append({std::move(turned[0]), std::move(turned[1])});
        continue;
      }
      for (auto [sum, other] : llvm::zip_equal(turned[0].vectors, turned[1].vectors))
        sum = plus(sum, other);
      next.push_back(std::move(turned[0]));
    }
    parts = std::move(next);
  }
  for (const Part &part : parts) {
    Value all = dots_.joined(part.vectors), &sum = sums[size_t(part.groups[0])];
    sum = sum ? plus(sum, all) : all;
  }
}

/// What is in memory there, in all lanes.
Value BlockPanels::splat(Type element, Value pointer, Value bytes) {
  return create<vector::SplatOp>(VectorType::get({lanes_}, element),
                                 dots_.load(element, pointer, bytes));
}

} // namespace tensmith::kernel
