// What register tiles fetch of panels before it is needed; see RegisterTile.h.
#include "compiler/targets/cpu/templates/RegisterTile.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

// Operands of a prefetch.
constexpr int kFirstLevel = 3, kSecondLevel = 2, kData = 1;

} // namespace

void TileEmitter::beginPrefetch(Value tile, Value tiles, Value most) {
  int64_t line = lineBytes();
  auto known = constantIndex(most), depth = constantIndex(source_.totalDepth());
  int64_t ofTile = llvm::divideCeil(line, std::max<int64_t>(known.value_or(1), 1));
  // What the second level holds from run to run anyway needs no more than that.
  auto panels = cast<RankedTensorType>(contraction_.panels.getType());
  auto fit = [&](int64_t bytes) {
    return panels.hasStaticShape() && panels.getNumElements() * line <= bytes * contraction_.width;
  };
  bool isNear = fit(l2Bytes_);
  // A step's lines are all asked for where they come from memory; what some cores' second levels
  // hold together, as a recurrence's weights, may be near as well.
  constexpr int64_t kSomeCores = 8;
  int64_t together = fit(kSomeCores * l2Bytes_) ? 1 : contraction_.step;
  fetchedBytes_ = ofTile;
  fetchedLines_ = isNear ? 1 : llvm::divideCeil(ofTile * together, kCacheLineBytes);
  // A full tile's requests alone don't keep memory busy where tiles are few: all lines in their
  // order, those of the next step again, make the core's own prefetcher join.
  fetchedLinesOfFull_ = isNear ? 1 : llvm::divideCeil(line * contraction_.step, kCacheLineBytes);
  fetchedLevel_ = depth && *depth * line > l1Bytes_ / 2 ? kSecondLevel : kFirstLevel;
  // Where there are more tiles than bytes in a line, the panel is small beside them.
  Value step = math_.ceilDiv(math_.constant(line), tiles);
  step_ = math_.select(math_.less(math_.constant(line), tiles), math_.constant(0), step);
  tile_ = tile;
  isAlone_ = math_.less(tiles, math_.constant(2));
}

Value TileEmitter::nextPanel(Value start, Value before) {
  Value total = source_.totalDepth();
  Value next = panelPointer(math_.add(start, math_.mul(total, contraction_.width)));
  return select(isAlone_, linesAhead(start, before),
                bytesFrom(next, math_.add(math_.mul(tile_, total), before)));
}

Value TileEmitter::linesAhead(Value start, Value before) {
  Value lines = math_.add(before, linesAhead_);
  return panelPointer(math_.add(start, math_.mul(lines, contraction_.width)));
}

Value TileEmitter::nextPart(Value panel, Value start, Value lines) {
  Value total = source_.totalDepth(), width = math_.constant(contraction_.width);
  Value isInside = math_.less(math_.add(panel, 1), part_.lastPanel);
  Value steps = math_.mul(math_.sub(panel, part_.firstPanel), total);
  Value firstStart = math_.sub(start, math_.mul(steps, width));
  Value nextStart = math_.add(start, math_.mul(math_.add(total, part_.begin), width));
  Value next =
      math_.select(isInside, nextStart, math_.add(firstStart, math_.mul(part_.end, width)));
  // Behind the last part of the last panel the next item's first panel begins.
  Value isEnd =
      math_.select(part_.isLast, math_.less(part_.lastPanel, math_.add(panel, 2)), part_.isLast);
  next = math_.select(isEnd, math_.add(start, math_.mul(total, width)), next);
  next = math_.add(next, math_.mul(lines, width));
  Value length = math_.sub(part_.end, part_.begin);
  Value first = math_.mul(math_.mul(tile_, length), step_);
  Value before = math_.mul(part_.begin, step_);
  return select(isAlone_, linesAhead(start, lines),
                moved(panelPointer(next), math_.sub(first, before)));
}

void TileEmitter::prefetch(Value next, Value k, int64_t ahead, bool isFull) {
  Value fetched = bytesFrom(bytesFrom(next, k), math_.constant(ahead));
  for (int64_t line = 0; line < (isFull ? fetchedLinesOfFull_ : fetchedLines_); ++line)
    emitter_.builder().create<LLVM::Prefetch>(
        math_.location, moved(fetched, math_.constant(line * kCacheLineBytes)),
        /*rw=*/0, /*hint=*/fetchedLevel_, /*cache=*/kData);
}

} // namespace tensmith::kernel
