// C[rows, columns] tile by tile: a register tile of height x width accumulators runs over taps and
// k, then the operators that follow are applied to it, in registers, and the results stored.
//
// Loops of an item: panel outside and tile inside, so that a panel of B stays in cache while the
// rows pass, which stay in cache for all panels; rows that have to be copied are copied before.
// While the tiles work on one panel, they prefetch the next. Where the depth is cut (Blocking.h),
// both loops pass each block of it, and sums that are not complete wait in scratch.
#include "compiler/kernel/ContractionKernel.h"

#include "compiler/kernel/Blocking.h"
#include "compiler/kernel/RowSource.h"
#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Extents of the contraction as values.
struct Extents {
  Value batch, rows, columns, panels;

  Extents(IndexMath &math, const SizeValues &sizes, const Contraction &contraction) {
    SmallVector<Value> out = dimValues(math, sizes, contraction.result());
    SmallVector<Value> panelDims = dimValues(math, sizes, contraction.panels.getType());
    panels = panelDims[panelDims.size() - 3];
    columns = out.back();
    if (graph::ConvOp conv = contraction.conv()) {
      batch = math.constant(conv.getGroup());
      columns = math.div(columns, batch);
      rows = math.product(ArrayRef(out).drop_back());
    } else if (panelDims.size() == 3) {
      batch = math.constant(1);
      rows = math.product(ArrayRef(out).drop_back());
    } else {
      rows = out[out.size() - 2];
      batch = math.product(ArrayRef(out).drop_back(2));
    }
  }
};

/// As many multiply-adds as two units have under way, each of which takes four cycles.
constexpr int64_t kIndependentSums = 8;
// Operands of a prefetch.
constexpr int kSecondLevel = 2, kData = 1;

SmallVector<Value> rowNumbers(IndexMath &math, Value first, int64_t height) {
  SmallVector<Value> rows;
  for (int64_t row = 0; row < height; ++row)
    rows.push_back(math.add(first, row));
  return rows;
}

/// A part of the sums of one item, and where they wait for the next part.
struct DepthPart {
  Value begin, end;
  Value isFirst, isLast;
  Value sums;                  // null where the depth is not cut
  Value firstPanel, lastPanel; // of the item
  Value rows;                  // of the item, in whole tiles
};

class TileEmitter {
public:
  TileEmitter(ElementEmitter &emitter, graph::KernelOp kernel, const Contraction &contraction,
              const MachineShape &machine, RowSource &source, const Extents &extents,
              ValueRange results)
      : emitter_(emitter), math_(emitter.math), kernel_(kernel), contraction_(contraction),
        source_(source), extents_(extents), results_(results),
        lanes_(machine.lanes(contraction.accumulator.getIntOrFloatBitWidth() / 8)),
        byteProducts_(machine.byteProducts),
        outDims_(dimValues(math_, emitter.sizes, contraction.result())) {
    readResultShapedOperandsByOffset();
  }

  /// Places of the tile's rows in the results, and of the rows of A.
  void beginRows(Value batch, Value firstRow, int64_t height, Value slot) {
    batch_ = batch;
    slot_ = slot;
    rows_ = rowNumbers(math_, firstRow, height);
    source_.beginTile(batch, rows_, slot);
  }

  /// The tile is number `tile` of `tiles` which pass the panel.
  void beginPrefetch(Value tile, Value tiles) {
    Type element = storageType(getElementTypeOrSelf(contraction_.panels.getType()));
    int64_t line = contraction_.width * std::max(element.getIntOrFloatBitWidth() / 8, 1u);
    // Where there are more tiles than bytes in a line, the panel is small beside them.
    Value step = math_.ceilDiv(math_.constant(line), tiles);
    step_ = math_.select(math_.less(math_.constant(line), tiles), math_.constant(0), step);
    tile_ = tile;
  }

  /// What follows is this part of the sums.
  void beginPart(const DepthPart &part) { part_ = part; }

  /// One tile of the rows begun, against a panel.
  void emitPanel(Value panel) {
    auto columns = constantIndex(extents_.columns);
    int64_t width = contraction_.width, vectors = width / lanes_;
    if (!columns)
      return emitTile(panel, vectors, /*masked=*/vectors);
    int64_t rest = *columns % width;
    if (rest == 0)
      return emitTile(panel, vectors, 0);
    Value last = math_.constant(*columns / width);
    Value full = math_.less(panel, last);
    auto partial = [&] { emitTile(panel, (rest + lanes_ - 1) / lanes_, rest % lanes_ ? 1 : 0); };
    if (*columns < width)
      return partial();
    emitIf(math_, full, [&] { emitTile(panel, vectors, 0); }, partial);
  }

private:
  /// Operands of the results' shape lie where the results do: no indices have to be taken apart for
  /// them.
  void readResultShapedOperandsByOffset() {
    for (BlockArgument argument : kernel_.getBody().getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type || argument == contraction_.left ||
          type.clone(contraction_.result().getElementType()) != contraction_.result())
        continue;
      Value pointer = emitter_.buffer(argument);
      Type element = type.getElementType();
      emitter_.define(argument, [this, argument, pointer, element](const Position &at) {
        bool here = !prefix_.empty() && ArrayRef(at.indices).drop_back() == ArrayRef(prefix_);
        Value offset = here ? math_.add(rowOffset_, at.indices.back())
                            : math_.linear(at.indices, emitter_.dims(argument));
        return emitter_.load(pointer, element, offset, at.lanes, at.mask);
      });
    }
  }

  /// The first `vectors` vectors of a panel's columns, of which the last `masked` are cut off at
  /// the results' width.
  void emitTile(Value panel, int64_t vectors, int64_t masked) {
    SmallVector<Value> sums = emitSums(panel, initialSums(panel, vectors), vectors);
    if (!part_.sums)
      return finishTile(panel, sums, vectors, masked);
    emitIf(
        math_, part_.isLast, [&] { finishTile(panel, sums, vectors, masked); },
        [&] {
          for (auto [number, sum] : llvm::enumerate(sums))
            emitter_.builder().create<LLVM::StoreOp>(math_.location, sum,
                                                     waitingSum(panel, number, vectors));
        });
  }

  void finishTile(Value panel, ValueRange sums, int64_t vectors, int64_t masked) {
    Value first = math_.mul(panel, contraction_.width);
    Value column =
        contraction_.conv() ? math_.add(math_.mul(batch_, extents_.columns), first) : first;
    for (auto [row, number] : llvm::enumerate(rows_)) {
      beginResultRow(number);
      for (int64_t v = 0; v < vectors; ++v) {
        Value mask = v >= vectors - masked ? maskFrom(math_.add(first, v * lanes_)) : Value();
        storeVector(sums[row * vectors + v], math_.add(column, v * lanes_), mask);
      }
    }
  }

  Value maskFrom(Value column) {
    return emitter_.maskBelow(math_.sub(extents_.columns, column), lanes_);
  }

  void beginResultRow(Value row) {
    ArrayRef<Value> dims(outDims_);
    if (contraction_.conv() ||
        cast<RankedTensorType>(contraction_.panels.getType()).getRank() == 3) {
      prefix_ = math_.delinear(row, dims.drop_back());
      rowOffset_ = math_.mul(row, dims.back());
    } else {
      prefix_ = math_.delinear(batch_, dims.drop_back(2));
      prefix_.push_back(row);
      rowOffset_ = math_.mul(math_.add(math_.mul(batch_, extents_.rows), row), dims.back());
    }
  }

  void storeVector(Value sum, Value column, Value mask) {
    Position at{prefix_, lanes_, mask};
    at.indices.push_back(column);
    if (contraction_.bias) {
      Value bias = emitter_.element(contraction_.bias, {{column}, lanes_, mask});
      sum = emitSum(sum, bias);
    }
    emitter_.define(contraction_.root->getResult(0), [sum](const Position &) { return sum; });
    auto yield = cast<graph::YieldOp>(kernel_.getBody().front().getTerminator());
    SmallVector<Value> elements;
    for (Value value : yield.getValues())
      elements.push_back(emitter_.element(value, at));
    for (auto [value, element, pointer] : llvm::zip_equal(yield.getValues(), elements, results_))
      emitter_.store(pointer, getElementTypeOrSelf(value.getType()), math_.add(rowOffset_, column),
                     element, mask);
  }

  /// Zeros, or what the parts before have summed up.
  SmallVector<Value> initialSums(Value panel, int64_t vectors) {
    auto &builder = emitter_.builder();
    Location location = math_.location;
    auto type = VectorType::get({lanes_}, contraction_.accumulator);
    Value zero = builder.create<arith::ConstantOp>(location, builder.getZeroAttr(type));
    SmallVector<Value> zeros(rows_.size() * vectors, zero);
    if (!part_.sums)
      return zeros;
    SmallVector<Type> types(zeros.size(), type);
    auto choice = builder.create<scf::IfOp>(location, types, part_.isFirst, /*withElse=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(choice.thenBlock());
    builder.create<scf::YieldOp>(location, zeros);
    builder.setInsertionPointToEnd(choice.elseBlock());
    SmallVector<Value> sums;
    for (size_t number = 0; number < zeros.size(); ++number)
      sums.push_back(
          builder.create<LLVM::LoadOp>(location, type, waitingSum(panel, number, vectors)));
    builder.create<scf::YieldOp>(location, sums);
    return SmallVector<Value>(choice.getResults());
  }

  /// Where a vector of the tile's sums is kept.
  Value waitingSum(Value panel, size_t number, int64_t vectors) {
    Value lines = math_.mul(math_.sub(panel, part_.firstPanel), part_.rows);
    Value line = math_.add(lines, math_.add(slot_, int64_t(number) / vectors));
    Value place = math_.add(math_.mul(line, contraction_.width), number % vectors * lanes_);
    return elementPointer(math_, contraction_.accumulator, part_.sums, place);
  }

  /// The sums of products: loops over taps and k that carry the register tile.
  SmallVector<Value> emitSums(Value panel, ValueRange sums, int64_t vectors) {
    Value total = source_.totalDepth();
    Value start = math_.mul(math_.mul(panelNumber(panel), total), contraction_.width);
    SmallVector<Value> tap;
    return emitTaps(panel, start, tap, math_.constant(0), sums, vectors);
  }

  SmallVector<Value> emitTaps(Value panel, Value start, SmallVector<Value> &tap, Value place,
                              ValueRange sums, int64_t vectors) {
    ArrayRef<int64_t> taps = source_.taps();
    if (tap.size() == taps.size()) {
      Value depth = source_.depth(), before = math_.mul(place, depth);
      Value first = math_.add(start, math_.mul(before, contraction_.width));
      Value next = part_.sums ? nextPart(panel, start) : nextPanel(start, before);
      return emitDepth(first, next, source_.rowPointers(tap), sums, vectors);
    }
    int64_t extent = taps[tap.size()];
    auto inner = [&](Value index, ValueRange carried) {
      tap.push_back(index);
      auto result =
          emitTaps(panel, start, tap, math_.add(math_.mul(place, extent), index), carried, vectors);
      tap.pop_back();
      return result;
    };
    if (extent == 1)
      return inner(math_.constant(0), sums);
    return emitReduction(math_, math_.constant(0), math_.constant(extent), math_.constant(1), sums,
                         inner);
  }

  /// Where a tile begins to prefetch the panel behind the one that starts at `start`, when it has
  /// done `before` steps of it: each step of each tile goes on by the same number of bytes.
  Value nextPanel(Value start, Value before) {
    Value total = source_.totalDepth();
    Value next = panelPointer(math_.add(start, math_.mul(total, contraction_.width)));
    return bytesFrom(next, math_.add(math_.mul(tile_, total), before));
  }

  /// The same of a part: the next panel's, or the first panel's next one. From where k is 0.
  Value nextPart(Value panel, Value start) {
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
    Value length = math_.sub(part_.end, part_.begin);
    Value first = math_.mul(math_.mul(tile_, length), step_);
    Value before = math_.mul(part_.begin, step_);
    return moved(panelPointer(next), math_.sub(first, before));
  }
  Value panelPointer(Value element) {
    return elementPointer(math_, getElementTypeOrSelf(contraction_.panels.getType()),
                          emitter_.buffer(contraction_.panels), element);
  }
  Value bytesFrom(Value pointer, Value steps) { return moved(pointer, math_.mul(steps, step_)); }
  Value moved(Value pointer, Value bytes) {
    auto &builder = emitter_.builder();
    return builder.create<LLVM::GEPOp>(math_.location, pointer.getType(), builder.getI8Type(),
                                       pointer, ValueRange{math_.toI64(bytes)});
  }

  /// The loop over k of one tap. A tile of few rows takes several steps of k at once, with sums of
  /// their own, since one chain of multiply-adds would wait for each result.
  SmallVector<Value> emitDepth(Value first, Value next, ValueRange rowPointers, ValueRange sums,
                               int64_t vectors) {
    Value begin = part_.sums ? part_.begin : math_.constant(0);
    Value depth = part_.sums ? part_.end : source_.depth();
    auto step = [&](Value k, ValueRange carried) {
      return emitStep(first, next, k, rowPointers, carried, vectors);
    };
    // As many in a panel that is cut off, so that equal columns have equal sums.
    int64_t chains =
        kIndependentSums / std::max<int64_t>(rowPointers.size() * (contraction_.width / lanes_), 1);
    if (chains <= 1 || sums.empty())
      return emitReduction(math_, begin, depth, math_.constant(contraction_.step), sums, step);
    Type type = sums[0].getType();
    Value nothing = emitter_.builder().create<arith::ConstantOp>(
        math_.location, emitter_.builder().getZeroAttr(type));
    SmallVector<Value> all(sums);
    all.resize(sums.size() * chains, nothing);
    int64_t stride = chains * contraction_.step;
    Value whole = math_.div(math_.sub(depth, begin), math_.constant(stride));
    whole = math_.add(begin, math_.mul(whole, stride));
    all = emitReduction(
        math_, begin, whole, math_.constant(stride), all, [&](Value k, ValueRange carried) {
          SmallVector<Value> results;
          for (int64_t chain = 0; chain < chains; ++chain)
            llvm::append_range(results, step(math_.add(k, chain * contraction_.step),
                                             carried.slice(chain * sums.size(), sums.size())));
          return results;
        });
    for (size_t sum = sums.size(); sum < all.size(); ++sum)
      all[sum % sums.size()] = emitSum(all[sum % sums.size()], all[sum]);
    all.resize(sums.size());
    return emitReduction(math_, whole, depth, math_.constant(contraction_.step), all, step);
  }

  SmallVector<Value> emitStep(Value first, Value next, Value k, ValueRange rowPointers,
                              ValueRange sums, int64_t vectors) {
    auto &builder = emitter_.builder();
    Type left = getElementTypeOrSelf(contraction_.left.getType());
    Type right = getElementTypeOrSelf(contraction_.panels.getType());
    Value buffer = emitter_.buffer(contraction_.panels);
    builder.create<LLVM::Prefetch>(math_.location, bytesFrom(next, k), /*rw=*/0,
                                   /*hint=*/kSecondLevel, /*cache=*/kData);
    SmallVector<Value> b, results;
    Value line = math_.add(first, math_.mul(k, contraction_.width));
    if (contraction_.step > 1) {
      int64_t codes = lanes_ * contraction_.step;
      for (int64_t v = 0; v < vectors; ++v)
        b.push_back(emitter_.load(buffer, right, math_.add(line, v * codes), codes));
      for (auto [row, pointer] : llvm::enumerate(rowPointers)) {
        Value a = loadStep(pointer, left, k);
        for (int64_t v = 0; v < vectors; ++v)
          results.push_back(emitDot(a, b[v], sums[row * vectors + v]));
      }
      return results;
    }
    for (int64_t v = 0; v < vectors; ++v)
      b.push_back(widen(emitter_.load(buffer, right, math_.add(line, v * lanes_), lanes_), right));
    for (auto [row, pointer] : llvm::enumerate(rowPointers)) {
      Value a = widen(emitter_.load(pointer, left, k), left);
      a = emitter_.splat(a, lanes_);
      for (int64_t v = 0; v < vectors; ++v)
        results.push_back(emitMultiplyAdd(builder, math_.location, a, false, b[v], false,
                                          sums[row * vectors + v]));
    }
    return results;
  }

  /// The elements of a row that are multiplied at once, for each lane of the sums.
  Value loadStep(Value row, Type element, Value k) {
    Type together = contraction_.accumulator;
    Value elements = emitter_.builder().create<LLVM::LoadOp>(
        math_.location, together, elementPointer(math_, element, row, k),
        storageType(element).getIntOrFloatBitWidth() / 8);
    return emitter_.splat(elements, lanes_);
  }

  /// sum + the products of the lanes' elements, added up. `a`: lanes of 32 bits; `b`: elements.
  Value emitDot(Value a, Value b, Value sum) {
    auto &builder = emitter_.builder();
    auto call = [&](StringRef name, ValueRange operands) {
      return builder
          .create<LLVM::CallIntrinsicOp>(math_.location, TypeRange(sum.getType()), name, operands)
          .getResult(0);
    };
    auto as = [&](Value value, Type type) {
      return builder.createOrFold<LLVM::BitcastOp>(math_.location, type, value);
    };
    bool wide = lanes_ == 16;
    if (contraction_.step == 2)
      return emitSum(sum, call(wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd",
                               {as(a, b.getType()), b}));
    if (byteProducts_ == ByteProducts::Vnni)
      return call(wide ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256",
                  {sum, a, as(b, sum.getType())});
    return emitWidenedDot(as(a, b.getType()), b, sum);
  }

  /// The same of bytes, unsigned by signed, one of each lane at a time.
  Value emitWidenedDot(Value a, Value b, Value sum) {
    auto &builder = emitter_.builder();
    for (int64_t part = 0; part < contraction_.step; ++part) {
      SmallVector<int64_t> lanes;
      for (int64_t lane = 0; lane < lanes_; ++lane)
        lanes.push_back(lane * contraction_.step + part);
      Value left = builder.create<vector::ShuffleOp>(math_.location, a, a, lanes);
      Value right = builder.create<vector::ShuffleOp>(math_.location, b, b, lanes);
      sum = emitMultiplyAdd(builder, math_.location, left, true, right, false, sum);
    }
    return sum;
  }

  Value emitSum(Value a, Value b) {
    auto &builder = emitter_.builder();
    if (isa<FloatType>(contraction_.accumulator))
      return builder.create<arith::AddFOp>(math_.location, a, b);
    return builder.create<arith::AddIOp>(math_.location, a, b);
  }

  /// An operand's element in the accumulator's type.
  Value widen(Value value, Type tensorElement) {
    auto &builder = emitter_.builder();
    auto vector = dyn_cast<VectorType>(value.getType());
    Type type = withLanes(contraction_.accumulator, vector ? vector.getNumElements() : 1);
    if (value.getType() == type)
      return value;
    if (isa<FloatType>(contraction_.accumulator))
      return builder.create<arith::ExtFOp>(math_.location, type, value);
    if (graph::isUnsigned(tensorElement))
      return builder.create<arith::ExtUIOp>(math_.location, type, value);
    return builder.create<arith::ExtSIOp>(math_.location, type, value);
  }

  /// The number of a panel among all batches of B, over some of which B may be broadcast.
  Value panelNumber(Value panel) {
    auto type = cast<RankedTensorType>(contraction_.panels.getType());
    SmallVector<Value> dims = emitter_.dims(contraction_.panels);
    if (contraction_.conv())
      return math_.add(math_.mul(batch_, extents_.panels), panel);
    if (type.getRank() == 3)
      return panel;
    SmallVector<Value> indices = math_.delinear(batch_, ArrayRef(outDims_).drop_back(2)), own;
    size_t missing = indices.size() - (type.getRank() - 3);
    for (int64_t dim = 0; dim + 3 < type.getRank(); ++dim)
      own.push_back(type.getDimSize(dim) == 1 ? math_.constant(0) : indices[missing + dim]);
    own.push_back(panel);
    return math_.linear(own, ArrayRef(dims).drop_back(2));
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  const Contraction &contraction_;
  RowSource &source_;
  const Extents &extents_;
  ValueRange results_;
  int64_t lanes_;
  ByteProducts byteProducts_;
  SmallVector<Value> outDims_, rows_, prefix_;
  Value batch_, rowOffset_, tile_, step_, slot_;
  DepthPart part_;
};

/// Rows of the register tile. Where products are added by an instruction of their own, they need a
/// register on the way, which a tile that fills all of few leaves none for: one would be spilled in
/// every step.
int64_t tileRows(const Contraction &contraction, const MachineShape &machine) {
  bool bytes = contraction.step == 4 && machine.byteProducts == ByteProducts::Vnni;
  bool fused = isa<FloatType>(contraction.accumulator) || bytes;
  constexpr int64_t kFewRegisters = 16;
  return fused || machine.vectorRegisters > kFewRegisters ? kTileRows : kTileRows - 1;
}

Blocking blockingOf(ElementEmitter &emitter, const Contraction &contraction,
                    const MachineShape &machine) {
  Extents extents(emitter.math, emitter.sizes, contraction);
  RowSource source(emitter, contraction);
  Type element = storageType(getElementTypeOrSelf(contraction.panels.getType()));
  int64_t elementBytes = std::max(element.getIntOrFloatBitWidth() / 8, 1u);
  return Blocking::choose(emitter.math, machine,
                          {.batch = extents.batch,
                           .rows = extents.rows,
                           .columns = extents.columns,
                           .panels = extents.panels,
                           .depth = source.totalDepth(),
                           .rowBytes = source.bytesPerRow(),
                           .lineBytes = contraction.width * elementBytes,
                           .height = tileRows(contraction, machine),
                           .copiesRows = source.copies(),
                           .cutsDepth = source.hasOneTap()});
}

struct Item {
  Value batch, tile, lastTile, panel, lastPanel;
};

/// Calls body for each item of the range.
void emitItems(IndexMath &math, const Blocking &blocking, Value begin, Value end,
               llvm::function_ref<void(const Item &)> body) {
  emitFor(math, begin, end, math.constant(1), [&](Value item) {
    auto choose = [&](Value apart, Value together) {
      return math.select(blocking.rowsApart, apart, together);
    };
    SmallVector<Value> at =
        math.delinear(item, {blocking.batch, choose(blocking.tileBlocks, blocking.panelBlocks),
                             choose(blocking.panelBlocks, blocking.tileBlocks)});
    Value tile = math.mul(choose(at[1], at[2]), blocking.tileBlock);
    Value panel = math.mul(choose(at[2], at[1]), blocking.panelBlock);
    body({at[0], tile, math.min(math.add(tile, blocking.tileBlock), blocking.tiles), panel,
          math.min(math.add(panel, blocking.panelBlock), blocking.panels)});
  });
}

/// Memory for rows that are copied, and behind them for sums that wait; returned is the latter's,
/// null where none do.
Value takeScratch(ElementEmitter &emitter, const Contraction &contraction, const Blocking &blocking,
                  RowSource &source, Value begin, Value &end) {
  IndexMath &math = emitter.math;
  if (!source.copies() && !blocking.cutsDepth())
    return {};
  constexpr int64_t kLine = 64;
  Value rows = math.mul(blocking.tileBlock, blocking.height), bytes = math.constant(0);
  if (source.copies())
    bytes = math.mul(math.ceilDiv(source.scratchBytes(rows), math.constant(kLine)), kLine);
  Value sumBytes = math.constant(0);
  if (blocking.cutsDepth()) {
    int64_t width = contraction.width * contraction.accumulator.getIntOrFloatBitWidth() / 8;
    sumBytes = math.mul(math.mul(rows, blocking.panelBlock), width);
  }
  Value scratch = emitScratch(emitter, math.add(bytes, sumBytes), begin, end);
  source.setScratch(scratch);
  if (!blocking.cutsDepth())
    return {};
  return elementPointer(math, emitter.builder().getI8Type(), scratch, bytes);
}

void emitItem(IndexMath &math, const Blocking &blocking, RowSource &source, TileEmitter &tiles,
              const Item &item, Value sums) {
  Value one = math.constant(1), count = math.sub(item.lastTile, item.tile);
  auto slot = [&](Value tile) { return math.mul(math.sub(tile, item.tile), blocking.height); };
  if (source.copies())
    emitFor(math, item.tile, item.lastTile, one, [&](Value t) {
      emitRowTile(math, blocking, t, [&](Value row, int64_t height) {
        source.copyTile(item.batch, rowNumbers(math, row, height), slot(t));
      });
    });
  auto passPanels = [&] {
    emitFor(math, item.panel, item.lastPanel, one, [&](Value panel) {
      emitFor(math, item.tile, item.lastTile, one, [&](Value t) {
        tiles.beginPrefetch(math.sub(t, item.tile), count);
        emitRowTile(math, blocking, t, [&](Value row, int64_t height) {
          tiles.beginRows(item.batch, row, height, slot(t));
          tiles.emitPanel(panel);
        });
      });
    });
  };
  if (!sums)
    return passPanels();
  Value rows = math.mul(blocking.tileBlock, blocking.height);
  emitFor(math, math.constant(0), blocking.depthBlocks, one, [&](Value number) {
    Value begin = math.mul(number, blocking.depthBlock);
    Value end = math.min(math.add(begin, blocking.depthBlock), source.totalDepth());
    Value isLast = math.less(blocking.depthBlocks, math.add(number, 2));
    tiles.beginPart(
        {begin, end, math.less(number, one), isLast, sums, item.panel, item.lastPanel, rows});
    passPanels();
  });
}

} // namespace

Template contractionTemplate(graph::KernelOp kernel, const Contraction &contraction,
                             const MachineShape &machine) {
  Template parts;
  constexpr StringRef kPlaces[] = {"in place", "moved", "copied"};
  parts.schedule = "contraction, tile " + std::to_string(tileRows(contraction, machine)) + "x" +
                   std::to_string(contraction.width) + ", rows " +
                   kPlaces[size_t(rowPlace(contraction))].str();
  if (contraction.step > 1)
    parts.schedule += ", products by " + std::to_string(contraction.step);
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    std::vector<std::string> messages;
    ElementEmitter emitter(math.builder, math.location, sizes, {}, messages);
    Blocking blocking = blockingOf(emitter, contraction, machine);
    return {blocking.items, blocking.grain};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Extents extents(math, emitter.sizes, contraction);
    RowSource source(emitter, contraction);
    Blocking blocking = blockingOf(emitter, contraction, machine);
    Value sums = takeScratch(emitter, contraction, blocking, source, begin, end);
    TileEmitter tiles(emitter, kernel, contraction, machine, source, extents, results);
    emitItems(math, blocking, begin, end,
              [&](const Item &item) { emitItem(math, blocking, source, tiles, item, sums); });
  };
  return parts;
}

} // namespace tensmith::kernel
