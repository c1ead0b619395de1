// The register tile of a contraction: height x width accumulators run over taps and k, then what
// follows is done with each vector of them, in registers.
//
// While the tiles of an item work on one panel, they prefetch the next, into the first-level cache
// or, where that couldn't hold it, into the second. A tile by itself reads each line once, as fast
// as it comes, and prefetches what is a little ahead. Where the depth is cut (Blocking.h), sums
// that are not complete wait in scratch.
#pragma once

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/KernelFrame.h"
#include "compiler/targets/cpu/templates/MatrixTile.h"
#include "compiler/targets/cpu/templates/RowSource.h"

namespace tensmith::kernel {

namespace choice {
/// Steps of k in an iteration of a register tile's loop.
inline constexpr Choice steps{"steps", 1, 16};
/// Lines of a panel ahead that a tile prefetches where it is the only one to read them.
inline constexpr Choice linesAhead{"lines_ahead", 0, 4096};
} // namespace choice

/// Unasked: what a loop costs beside its products is shared by so many steps, or by more of bursts.
inline constexpr int64_t kStepsOfIteration = 4;
inline constexpr int64_t kCacheLineBytes = 64;

/// Extents of the contraction as values.
struct Extents {
  mlir::Value batch, rows, columns, panels;

  Extents(IndexMath &math, const SizeValues &sizes, const Contraction &contraction);
};

/// A part of the sums of one item, and where they wait for the next part.
struct DepthPart {
  mlir::Value begin, end;
  mlir::Value isFirst, isLast;
  mlir::Value sums;                  // null where the depth is not cut
  mlir::Value firstPanel, lastPanel; // of the item
  mlir::Value rows;                  // of the item, in whole tiles
};

class TileEmitter {
public:
  /// What is done with a vector of the result, which the root's result is defined as; `slot` is its
  /// row's, and `row` that one's number in the result.
  using Finish = std::function<void(const Position &at, mlir::Value slot, mlir::Value row)>;

  TileEmitter(ElementEmitter &emitter, graph::KernelOp kernel, const Contraction &contraction,
              const Machine &machine, RowSource &source, const Extents &extents, Finish finish,
              const Point &asked = {});

  /// Places of the tile's rows in the results, and of the rows of A.
  void beginRows(mlir::Value batch, const TileRows &rows);

  /// The same of a tile of the matrix unit, of `count` rows.
  void beginMatrixRows(MatrixTile &tile, mlir::Value batch, mlir::Value firstRow, mlir::Value count,
                       mlir::Value slot);

  /// The tile is number `tile` of `tiles` which pass the panel; `most` is how many may.
  void beginPrefetch(mlir::Value tile, mlir::Value tiles, mlir::Value most);

  /// What follows is this part of the sums.
  void beginPart(const DepthPart &part) { part_ = part; }

  /// One tile of the rows begun, against a panel. Masked, one code does panels that are cut off at
  /// the results' width and those that aren't: for rows that come seldom.
  void emitPanel(mlir::Value panel, bool masked = false);

private:
  /// Operands of the results' shape lie where the results do: no indices have to be taken apart for
  /// them.
  void readResultShapedOperandsByOffset();

  /// The first `vectors` vectors of a panel's columns, of which the last `masked` are cut off at
  /// the results' width.
  void emitTile(mlir::Value panel, int64_t vectors, int64_t masked);

  void emitMatrixTile(mlir::Value panel, int64_t vectors, int64_t masked);

  void finishTile(mlir::Value panel, mlir::ValueRange sums, int64_t vectors, int64_t masked);

  /// 1, 2, 4, ... vectors as one.
  mlir::Value joined(mlir::ValueRange vectors);

  void beginResultRow(mlir::Value row);

  void finishVector(size_t row, mlir::Value sum, mlir::Value column, mlir::Value mask);

  /// Vectors of rows; of an instruction of several rows as it has them, whole blocks of a vector
  /// each, which `untangled` makes vectors of rows of.
  llvm::SmallVector<mlir::Value> zeros(int64_t vectors);
  /// What the sums of a tile begin with: zeros, or `subtracted_` less than that.
  llvm::SmallVector<mlir::Value> beginnings(mlir::Value column, int64_t vectors, int64_t masked);
  bool beginsSubtracted() const {
    return subtracted_ && !part_.sums && !matrix_.tile && rowsAtOnce() == 1;
  }
  /// The first of a panel's columns in the result.
  mlir::Value resultColumn(mlir::Value first);
  mlir::Value maskOf(mlir::Value first, int64_t v, int64_t vectors, int64_t masked);
  llvm::SmallVector<mlir::Value> untangled(llvm::ArrayRef<mlir::Value> sums, int64_t vectors);
  /// Rows of A that are multiplied together.
  int64_t rowsAtOnce() const { return products_ ? products_->rows : 1; }

  /// With what the parts before have summed up.
  llvm::SmallVector<mlir::Value> withWaitingSums(mlir::Value panel,
                                                 llvm::ArrayRef<mlir::Value> sums, int64_t vectors);

  /// Where a vector of the tile's sums is kept.
  mlir::Value waitingSum(mlir::Value panel, size_t number, int64_t vectors);

  /// Where the panel's first element is.
  mlir::Value panelStart(mlir::Value panel);

  /// The sums of products: loops over taps and k that carry the register tile.
  llvm::SmallVector<mlir::Value> emitSums(mlir::Value panel, mlir::ValueRange sums,
                                          int64_t vectors);

  llvm::SmallVector<mlir::Value> emitTaps(mlir::Value panel, mlir::Value start,
                                          llvm::SmallVector<mlir::Value> &tap, mlir::Value place,
                                          mlir::ValueRange sums, int64_t vectors);

  /// Whether the loop over the taps of that dimension adds up sums that begin at zero: the
  /// innermost whose sums are of many products.
  bool addsChains(size_t dim) const;

  /// Of a panel, for each unit of depth.
  int64_t lineBytes() const;

  /// Where a tile begins to prefetch the panel behind the one that starts at `start`, when it has
  /// done `before` steps of it: each step of each tile goes on by the same number of bytes.
  mlir::Value nextPanel(mlir::Value start, mlir::Value before);

  /// The same of a part: the next panel's, or the first panel's next one. From where k is 0, of the
  /// tap whose pieces begin so many lines behind the panel's.
  mlir::Value nextPart(mlir::Value panel, mlir::Value start, mlir::Value lines);
  /// Where a tile that is alone does so.
  mlir::Value linesAhead(mlir::Value start, mlir::Value before);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value panelPointer(mlir::Value element);
  mlir::Value bytesFrom(mlir::Value pointer, mlir::Value steps) {
    return moved(pointer, math_.mul(steps, step_));
  }
  mlir::Value moved(mlir::Value pointer, mlir::Value bytes);

  /// The loop over k of one tap, several steps at once. A tile of few rows takes those with sums of
  /// their own, since one chain of multiply-adds would wait for each result; and from parts of the
  /// panel that lie apart, since it mostly waits for memory, which brings several streams faster
  /// than one.
  llvm::SmallVector<mlir::Value> emitDepth(mlir::Value first, mlir::Value next,
                                           mlir::ValueRange rowPointers, mlir::ValueRange sums,
                                           int64_t vectors);

  /// Makes `rows` and the line point to what the step at `k` takes.
  void beginIteration(mlir::Value panel, mlir::Value k, llvm::MutableArrayRef<mlir::Value> rows);
  mlir::Value lineAhead(mlir::Value line); // the next step's

  /// The step at `k`, or so many `ahead` of it. `panel` is where the panel has what k of 0 takes.
  llvm::SmallVector<mlir::Value> emitStep(mlir::Value panel, mlir::Value next, mlir::Value k,
                                          int64_t ahead, mlir::ValueRange rowPointers,
                                          mlir::ValueRange sums, int64_t vectors,
                                          mlir::ValueRange blocks = {});

  /// The same by an instruction, of what `loadBlocks` gave for the step, where the panel's line is
  /// at `line`.
  llvm::SmallVector<mlir::Value> emitBlocks(mlir::Value line, mlir::ValueRange left,
                                            mlir::ValueRange sums, int64_t vectors);
  /// For each step, of each two rows what is multiplied at once. Two steps that follow one another
  /// are loaded together: a half of a register takes an instruction more.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> loadBlocks(mlir::ValueRange rows, mlir::Value k,
                                                               int64_t ahead, int64_t steps);
  /// So many of the panel's elements from `number` times as many on, as they are multiplied.
  mlir::Value loadRight(mlir::Value line, int64_t number, int64_t count);

  /// Steps of an iteration on a machine that does instructions in order: a load waits for the
  /// products before it, so those of several steps are made together, before their products. Those
  /// of A are vectors of a few steps, whose lanes are multiplied. All else is done among the loads:
  /// what is done sooner than the products before it waits for them. Where lanes are multiplied at
  /// no cost that is less to do in any order: one load of A for four steps in the place of four.
  llvm::SmallVector<mlir::Value> emitBursts(mlir::Value panel, mlir::Value next, mlir::Value k,
                                            int64_t steps, mlir::ValueRange rowPointers,
                                            mlir::ValueRange sums, int64_t vectors);
  bool takesBursts(int64_t rows, int64_t vectors, int64_t chains) const;
  /// As asked, or `kStepsOfIteration`, and in bursts up to four times as many, if no steps are left
  /// over: a loop's own work weighs more where an instruction loads all of a register's lanes. Of
  /// 16 steps it is one instruction in 25 to 40.
  int64_t stepsOfIteration(bool bursts) const;
  /// Of such a row, what all lanes are multiplied with in `kStepsOfIteration` steps.
  mlir::Value loadLanes(mlir::Value row, mlir::Value k);

  /// Lines of what comes next, fetched in the step at `k`, or so many `ahead` of it.
  void prefetch(mlir::Value next, mlir::Value k, int64_t ahead, bool isFull);

  /// What the elements of a row that are multiplied at once are loaded as.
  mlir::Type togetherLoaded(mlir::Type element);
  /// The elements of a row that are multiplied at once, for each lane of the sums.
  mlir::Value loadStep(mlir::Value pointer, mlir::Type element);

  /// The pointer or the number, of which LLVM only knows that it is there when the sums are: else
  /// it loads what several steps multiply at once, for which there are no registers. Of sums that
  /// registers hold.
  mlir::Value behind(mlir::Value place, llvm::MutableArrayRef<mlir::Value> sums);

  mlir::Value emitSum(mlir::Value a, mlir::Value b);

  /// An operand's element in the accumulator's type.
  mlir::Value widen(mlir::Value value, mlir::Type tensorElement);

  /// The number of a panel among all batches of B, over some of which B may be broadcast.
  mlir::Value panelNumber(mlir::Value panel);

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  const Contraction &contraction_;
  RowSource &source_;
  const Extents &extents_;
  Finish finish_;
  int64_t l1Bytes_, l2Bytes_, linesAhead_;
  std::optional<int64_t> steps_; // asked
  int64_t vectorRegisters_, lanes_;
  bool masksAreFree_;
  std::optional<Burst> burst_;
  int64_t fetchedBytes_ = 0;                          // of a panel, in a step of one tile
  int64_t fetchedLines_ = 1, fetchedLinesOfFull_ = 1; // in a step; of a tile with all its rows
  int fetchedLevel_ = 0;                              // of caches
  int64_t joined_;                                    // vectors of sums that are finished together
  const Intrinsic *products_;                         // null: one by one
  Hold hold_;
  bool rowsApart_ = false; // by an unknown number of bytes
  /// Of the panel, where pointers go along from step to step; those to rows begin where an
  /// iteration does then. Null: a step's places are so many bytes behind that of k.
  mlir::Value line_;
  graph::SubOp subtracted_; // takes a number for each column off sums of integers; null: none does
  llvm::SmallVector<mlir::Value> outDims_, prefix_;
  TileRows rows_;
  mlir::Value batch_, row_, tile_, step_, isAlone_;
  DepthPart part_;
  struct {
    MatrixTile *tile = nullptr; // null: the tile is one of registers
    mlir::Value first, count, slot;
  } matrix_;
};

} // namespace tensmith::kernel
