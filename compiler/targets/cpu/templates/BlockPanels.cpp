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
  int64_t elements = dots_.elements(), groups = dots_.groups();
  bool hasOffset = dots_.format_->hasOffset();
  llvm::SmallVector<int64_t> lines; // of each four codes, and of each group's scale
  for (int64_t place = 0; place < elements; place += kDepth)
    lines.push_back(dots_.elementAt(place) / kDepth);
  auto ofGroups = llvm::to_vector(llvm::seq<int64_t>(0, groups));
  emitFor(math, zero, math.constant(dots_.strips()), one, [&](Value strip) {
    emitFor(math, zero, math.constant(lanes_), one, [&](Value lane) {
      Value row = dots_.at(rowOf(lane), math.mul(strip, dots_.stripBytes()));
      dots_.unpack(row, dots_.at(panel, math.add(math.mul(lane, elements), stripAt())));
      Value offsets, scales = dots_.scales(row, offsets), place = math.mul(lane, groups * 4);
      dots_.store(scales, panel, math.add(place, stripScalesAt()));
      if (offsets)
        dots_.store(offsets, panel, math.add(place, stripOffsetsAt()));
    });
    Value group = math.mul(strip, groups * lanes_ * 4);
    turn(stripAt(), lines, math.mul(strip, elements * lanes_), panel);
    turn(stripScalesAt(), ofGroups, math.add(group, scalesAt()), panel);
    if (hasOffset)
      turn(stripOffsetsAt(), ofGroups, math.add(group, offsetsAt()), panel);
  });
}

/// Transposes `lanes` rows of words, which are at `from` in the panel: of the lines behind `to`
/// each has a column of them, whose number `lines` says.
void BlockPanels::turn(int64_t from, ArrayRef<int64_t> lines, Value to, Value panel) {
  IndexMath &math = *dots_.math_;
  auto words = VectorType::get({lanes_}, dots_.builder().getI32Type());
  auto columns = int64_t(lines.size());
  int64_t count = std::min(columns, lanes_), pitch = std::max(columns, lanes_);
  for (int64_t first = 0; first < columns; first += count) {
    llvm::SmallVector<Value> vectors;
    for (int64_t i = 0; i < count; ++i)
      vectors.push_back(dots_.load(words, panel, math.constant(from + (i * pitch + first) * 4)));
    vectors = interleaved(std::move(vectors));
    for (int64_t i = 0; i < count; ++i)
      dots_.store(vectors[size_t(i)], panel, math.add(to, lines[size_t(first + i)] * lanes_ * 4));
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
