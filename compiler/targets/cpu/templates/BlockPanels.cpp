// Rows in 8 bits times panels of blocks; see BlockPanels.h.
#include "compiler/targets/cpu/templates/BlockPanels.h"

#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

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

/// What is in memory there, in all lanes.
Value BlockPanels::splat(Type element, Value pointer, Value bytes) {
  return create<vector::SplatOp>(VectorType::get({lanes_}, element),
                                 dots_.load(element, pointer, bytes));
}

} // namespace tensmith::kernel
