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
int64_t BlockPanels::stripPitch() const {
  return int64_t(llvm::alignTo(dots_.elements(), kDepth * lanes_));
}
int64_t BlockPanels::bytes() const { return stripAt() + lanes_ * stripPitch(); }

// ---- Weights

void BlockPanels::unpack(llvm::function_ref<Value(Value)> rowOf, Value panel) {
  IndexMath &math = *dots_.math_;
  Value zero = math.constant(0), one = math.constant(1);
  emitFor(math, zero, math.constant(dots_.strips()), one, [&](Value strip) {
    emitFor(math, zero, math.constant(lanes_), one, [&](Value lane) {
      Value row = dots_.at(rowOf(lane), math.mul(strip, dots_.stripBytes()));
      dots_.unpack(row, dots_.at(panel, math.add(math.mul(lane, stripPitch()), stripAt())));
      scaleLane(row, strip, lane, panel);
    });
    turn(strip, panel);
  });
}

/// Puts the scales and offsets of a row's strip into its lane.
void BlockPanels::scaleLane(Value row, Value strip, Value lane, Value panel) {
  IndexMath &math = *dots_.math_;
  Value offsets, scales = dots_.scales(row, offsets);
  Value first = math.add(math.mul(strip, dots_.groups() * lanes_), lane);
  for (int64_t group = 0; group < dots_.groups(); ++group) {
    Value place = math.mul(math.add(first, group * lanes_), 4);
    dots_.store(create<vector::ExtractOp>(scales, group), panel, math.add(place, scalesAt()));
    if (offsets)
      dots_.store(create<vector::ExtractOp>(offsets, group), panel, math.add(place, offsetsAt()));
  }
}

/// A strip of rows becomes lines of the panel, each with four codes of every row.
void BlockPanels::turn(Value strip, Value panel) {
  IndexMath &math = *dots_.math_;
  auto words = VectorType::get({lanes_}, dots_.builder().getI32Type());
  int64_t lines = dots_.elements() / kDepth;
  Value first = math.mul(strip, lines * kDepth * lanes_);
  for (int64_t line = 0; line < lines; line += lanes_) {
    llvm::SmallVector<Value> rows;
    for (int64_t row = 0; row < lanes_; ++row)
      rows.push_back(
          dots_.load(words, panel, math.constant(stripAt() + row * stripPitch() + line * kDepth)));
    rows = transposed(std::move(rows));
    for (int64_t i = 0; i < std::min(lanes_, lines - line); ++i)
      dots_.store(rows[size_t(i)], panel, math.add(first, (line + i) * kDepth * lanes_));
  }
}

/// Each step takes lanes of a vector and of the one half of all behind it by turns, which as many
/// steps as a lane's number has bits make a transposition.
llvm::SmallVector<Value> BlockPanels::transposed(llvm::SmallVector<Value> rows) {
  llvm::SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < lanes_ / 2; ++lane) {
    low.append({lane, lanes_ + lane});
    high.append({lanes_ / 2 + lane, lanes_ + lanes_ / 2 + lane});
  }
  for (int64_t step = 1; step < lanes_; step *= 2) {
    llvm::SmallVector<Value> next;
    for (size_t i = 0; i < rows.size() / 2; ++i)
      for (const auto &half : {low, high})
        next.push_back(create<vector::ShuffleOp>(rows[i], rows[i + rows.size() / 2], half));
    rows = std::move(next);
  }
  return rows;
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
