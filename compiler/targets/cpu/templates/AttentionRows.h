// The rows of attention's weights: the left operand of its second product, made a tile at a time
// where that looks for its rows.
//
// A tile of queries is multiplied with all keys, and scaled and masked while the scores are in
// registers; then a softmax goes over each row in the first-level cache. So the matrix of scores is
// never in memory: there are as many rows of it as an item has, of which one tile needs to stay in
// the second-level cache. Rows stay whole, and their sums are those of separate operators, in the
// same order; an online softmax (Dao et al., "FlashAttention", 2022) would be for rows of more
// than ten thousand keys.
#pragma once

#include "compiler/kernel/RowSweep.h"
#include "compiler/targets/cpu/templates/RegisterTile.h"

namespace tensmith::kernel {

/// The scores that a product's rows are computed from, where that is done in its kernel.
std::optional<AttentionScores> scoresOf(mlir::Operation *root);

class AttentionRows {
public:
  AttentionRows(ElementEmitter &emitter, graph::KernelOp kernel, const AttentionScores &scores,
                const Contraction &product, mlir::Value weights, const Machine &machine,
                RowSource &copies, const Point &asked)
      : emitter_(emitter), math_(emitter.math), softmax_(scores.softmax), weights_(weights),
        copies_(copies), queries_(emitter, product), extents_(math_, emitter.sizes, product),
        tiles_(
            emitter, kernel, product, machine, queries_, extents_,
            [this](const Position &at, mlir::Value slot, mlir::Value) { keep(at, slot); }, asked),
        sweep_(emitter, extents_.columns, machine.lanes(4), asked) {}

  /// A tile of them: products with all keys, then, while they are in the nearest cache, the rest.
  void fill(mlir::Value batch, const RowGroup &group, mlir::Value slotOfTile);

private:
  mlir::Type f32() { return emitter_.builder().getF32Type(); }

  void keep(const Position &at, mlir::Value slot);

  llvm::SmallVector<mlir::Value> rowIndices(mlir::Value batch, mlir::Value row);

  void finishRow(llvm::ArrayRef<mlir::Value> outer, mlir::Value row);

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::SoftmaxOp softmax_;
  mlir::Value weights_; // the product's left operand
  RowSource &copies_, queries_;
  Extents extents_;
  TileEmitter tiles_;
  RowSweep sweep_;
};

} // namespace tensmith::kernel
