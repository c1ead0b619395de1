// Scores, and what a softmax makes of them; see AttentionRows.h.
#include "compiler/targets/cpu/templates/AttentionRows.h"

using namespace mlir;

namespace tensmith::kernel {

std::optional<AttentionScores> scoresOf(Operation *root) {
  auto scores = matchScores(root);
  auto product = scores ? matchContraction(scores->product) : std::nullopt;
  bool fits = product && rowPlace(*product) != RowPlace::Copied;
  return fits ? std::move(scores) : std::nullopt;
}

void AttentionRows::fill(Value batch, const RowGroup &group, Value slotOfTile) {
  TileRows rows(math_, group, slotOfTile);
  Value one = math_.constant(1), zero = math_.constant(0);
  tiles_.beginPrefetch(zero, one, one);
  tiles_.beginRows(batch, rows);
  emitFor(math_, zero, extents_.panels, one,
          [&](Value panel) { tiles_.emitPanel(panel, /*masked=*/!group.isWhole); });
  Value count = group.count ? group.count : math_.constant(group.height);
  emitFor(math_, zero, count, one, [&](Value row) {
    SmallVector<Value> outer = rowIndices(batch, math_.add(group.first, row));
    finishRow(outer, copies_.copiedRow(math_.add(rows.slots.front(), row)));
  });
}

void AttentionRows::keep(const Position &at, Value slot) {
  Value score = emitter_.element(softmax_.getX(), at);
  emitter_.store(copies_.copiedRow(slot), f32(), at.indices.back(), score, at.mask);
}

SmallVector<Value> AttentionRows::rowIndices(Value batch, Value row) {
  SmallVector<Value> dims = emitter_.dims(softmax_.getResult());
  SmallVector<Value> indices = math_.delinear(batch, ArrayRef(dims).drop_back(2));
  indices.push_back(row);
  return indices;
}

void AttentionRows::finishRow(ArrayRef<Value> outer, Value row) {
  graph::ScalarCode code(emitter_.builder(), math_.location);
  Value largest = sweep_.reduce(vector::CombiningKind::MAXIMUMF, [&](const RowSweep::Columns &at) {
    return emitter_.load(row, f32(), at.first, at.lanes, at.mask);
  });
  Value scale = exponentiate(emitter_, sweep_, row, largest);
  emitter_.define(softmax_.getResult(), [this, code, row, scale](const Position &at) {
    Value power = emitter_.load(row, f32(), at.indices.back(), at.lanes, at.mask);
    return code.mul(power, emitter_.splat(scale, at.lanes));
  });
  sweep_.each([&](const RowSweep::Columns &columns) {
    Position at{SmallVector<Value>(outer), columns.lanes, columns.mask};
    at.indices.push_back(columns.first);
    emitter_.store(row, f32(), columns.first, emitter_.element(weights_, at), columns.mask);
  });
}

} // namespace tensmith::kernel
