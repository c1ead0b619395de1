// Emits the register tile's loops; see RegisterTile.h.
#include "compiler/targets/cpu/templates/RegisterTile.h"

#include "compiler/kernel/WindowElement.h"
#include "compiler/targets/cpu/templates/JoinedSums.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Of a vector's blocks.
constexpr int64_t kRows = 2;
/// As many multiply-adds as two units have under way, each of which takes four cycles.
constexpr int64_t kIndependentSums = 8;
/// Products that are summed from zero, where a loop over taps adds up such sums: rounding grows
/// with the root of a chain's length, and to put a tile's sums aside costs as much as two products
/// each.
constexpr int64_t kProductsOfChain = 192;
/// Bytes of a panel from which on a part of a sum is worth a stream of its own from memory: a
/// core's prefetcher starts anew with each page.
constexpr int64_t kStreamBytes = 16 << 10;

/// What takes a number for each column off the sums, if nothing else reads these. In integers it is
/// the same where sums begin at less than zero.
graph::SubOp subtraction(const Contraction &contraction) {
  Value sums = contraction.root->getResult(0);
  if (!isa<IntegerType>(contraction.accumulator) || contraction.bias || !sums.hasOneUse())
    return {};
  auto op = dyn_cast<graph::SubOp>(*sums.user_begin());
  if (!op || op.getA() != sums || op.getType() != sums.getType())
    return {};
  auto columns = cast<RankedTensorType>(op.getB().getType()).getShape();
  bool isRow = !columns.empty() && llvm::all_of(columns.drop_back(), [](auto n) { return n == 1; });
  bool hasAll = isRow && columns.back() == cast<RankedTensorType>(sums.getType()).getShape().back();
  return hasAll && !ShapedType::isDynamic(columns.back()) ? op : graph::SubOp();
}

} // namespace

Extents::Extents(IndexMath &math, const SizeValues &sizes, const Contraction &contraction) {
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

TileEmitter::TileEmitter(ElementEmitter &emitter, graph::KernelOp kernel,
                         const Contraction &contraction, const Machine &machine, RowSource &source,
                         const Extents &extents, Finish finish, const Point &asked)
    : emitter_(emitter), math_(emitter.math), kernel_(kernel), contraction_(contraction),
      source_(source), extents_(extents), finish_(std::move(finish)), l1Bytes_(machine.l1Bytes),
      l2Bytes_(machine.l2Bytes),
      linesAhead_(asked[choice::linesAhead].value_or(machine.linesAhead)),
      steps_(asked[choice::steps]), vectorRegisters_(machine.vectorRegisters),
      lanes_(machine.lanes(contraction.accumulator.getIntOrFloatBitWidth() / 8)),
      masksAreFree_(machine.maskRegisters), burst_(burstOf(contraction, machine)),
      joined_(joinedVectors(kernel, contraction, lanes_)),
      products_(productsOf(contraction, machine)), hold_(machine.hold),
      subtracted_(subtraction(contraction)),
      outDims_(dimValues(math_, emitter.sizes, contraction.result())) {
  assert((rowsAtOnce() == 1 || rowsAtOnce() == kRows) && "no instruction has more rows");
  readResultShapedOperandsByOffset();
}

void TileEmitter::beginRows(Value batch, const TileRows &rows) {
  batch_ = batch;
  rows_ = rows;
  source_.beginTile(batch, rows_);
}

void TileEmitter::beginMatrixRows(MatrixTile &tile, Value batch, Value firstRow, Value count,
                                  Value slot) {
  batch_ = batch;
  matrix_ = {&tile, firstRow, count, slot};
  tile.beginRows(batch, firstRow, count, slot);
}

int64_t TileEmitter::lineBytes() const {
  Type element = storageType(getElementTypeOrSelf(contraction_.panels.getType()));
  return contraction_.width * std::max(element.getIntOrFloatBitWidth() / 8, 1u);
}

void TileEmitter::emitPanel(Value panel, bool masked) {
  auto columns = constantIndex(extents_.columns);
  int64_t width = contraction_.width, vectors = width / lanes_;
  if (masked && (!columns || (*columns > width && *columns % width != 0)))
    return emitTile(panel, vectors, /*masked=*/vectors);
  if (!columns) {
    Value end = math_.mul(math_.add(panel, 1), width);
    return emitIf(
        math_, math_.less(extents_.columns, end),
        [&] { emitTile(panel, vectors, /*masked=*/vectors); },
        [&] { emitTile(panel, vectors, 0); });
  }
  int64_t rest = *columns % width;
  if (rest == 0)
    return emitTile(panel, vectors, 0);
  int64_t ofRest = llvm::divideCeil(rest, lanes_);
  if (masksAreFree_ && ofRest == vectors)
    return emitTile(panel, vectors, /*masked=*/1);
  Value last = math_.constant(*columns / width);
  Value full = math_.less(panel, last);
  auto partial = [&] { emitTile(panel, ofRest, rest % lanes_ ? 1 : 0); };
  if (*columns < width)
    return partial();
  emitIf(math_, full, [&] { emitTile(panel, vectors, 0); }, partial);
}

void TileEmitter::readResultShapedOperandsByOffset() {
  for (BlockArgument argument : kernel_.getBody().getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || argument == contraction_.left ||
        type.clone(contraction_.result().getElementType()) != contraction_.result())
      continue;
    Value pointer = emitter_.buffer(argument);
    Type element = type.getElementType();
    emitter_.define(argument, [this, argument, pointer, element](const Position &at) {
      bool here = !prefix_.empty() && ArrayRef(at.indices).drop_back() == ArrayRef(prefix_);
      Value offset = here ? math_.add(math_.mul(row_, outDims_.back()), at.indices.back())
                          : math_.linear(at.indices, emitter_.dims(argument));
      return emitter_.load(pointer, element, offset, at.lanes, at.mask);
    });
  }
}

void TileEmitter::emitMatrixTile(Value panel, int64_t vectors, int64_t masked) {
  matrix_.tile->emitSums(panel, panelStart(panel), vectors * lanes_);
  auto finish = [&](Value number, Value first, int64_t count) {
    rows_ = TileRows(math_, {.first = number, .height = count}, math_.add(matrix_.slot, first));
    SmallVector<Value> sums;
    for (int64_t row = 0; row < count; ++row)
      for (int64_t v = 0; v < vectors; ++v)
        sums.push_back(matrix_.tile->sums(math_.add(first, row), v * lanes_));
    finishTile(panel, sums, vectors, masked);
  };
  if (source_.pads())
    return emitFor(math_, math_.constant(0), matrix_.count, math_.constant(1), [&](Value row) {
      Value inside, number = source_.resultRow(math_.add(matrix_.first, row), inside);
      emitIf(math_, inside, [&] { finish(number, row, 1); });
    });
  auto finishRows = [&](Value begin, Value end, int64_t count) {
    emitFor(math_, begin, end, math_.constant(count),
            [&](Value first) { finish(math_.add(matrix_.first, first), first, count); });
  };
  constexpr int64_t kRowsAtOnce = 2; // what one waits for, another does
  Value whole = math_.mul(math_.div(matrix_.count, math_.constant(kRowsAtOnce)), kRowsAtOnce);
  finishRows(math_.constant(0), whole, kRowsAtOnce);
  finishRows(whole, matrix_.count, 1);
}

void TileEmitter::emitTile(Value panel, int64_t vectors, int64_t masked) {
  if (matrix_.tile)
    return emitMatrixTile(panel, vectors, masked);
  Value first = math_.mul(panel, contraction_.width);
  SmallVector<Value> sums = emitSums(panel, beginnings(first, vectors, masked), vectors);
  if (!part_.sums)
    return finishTile(panel, sums, vectors, masked);
  sums = withWaitingSums(panel, sums, vectors);
  emitIf(
      math_, part_.isLast, [&] { finishTile(panel, sums, vectors, masked); },
      [&] {
        for (auto [number, sum] : llvm::enumerate(sums))
          emitter_.builder().create<LLVM::StoreOp>(math_.location, sum,
                                                   waitingSum(panel, number, vectors));
      });
}

void TileEmitter::finishTile(Value panel, ValueRange sums, int64_t vectors, int64_t masked) {
  Value first = math_.mul(panel, contraction_.width), column = resultColumn(first);
  auto finishRow = [&](size_t row) {
    beginResultRow(rows_.numbers[row]);
    for (int64_t v = 0, together; v < vectors; v += together) {
      Value mask = maskOf(first, v, vectors, masked);
      together = joined_;
      while (together > 1 && v + together > vectors - masked)
        together /= 2;
      Value sum = joined(sums.slice(row * size_t(vectors) + size_t(v), size_t(together)));
      finishVector(row, sum, math_.add(column, v * lanes_), mask);
    }
  };
  for (size_t row = 0; row < rows_.size(); ++row)
    if (Value isThere = rows_.isThere[row])
      emitIf(math_, isThere, [&] { finishRow(row); });
    else
      finishRow(row);
}

Value TileEmitter::joined(ValueRange vectors) {
  if (vectors.size() == 1)
    return vectors[0];
  Value low = joined(vectors.take_front(vectors.size() / 2)),
        high = joined(vectors.drop_front(vectors.size() / 2));
  auto lanes = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(vectors.size()) * lanes_));
  return emitter_.builder().create<vector::ShuffleOp>(math_.location, low, high, lanes);
}

Value TileEmitter::maskOf(Value first, int64_t v, int64_t vectors, int64_t masked) {
  if (v < vectors - masked)
    return {};
  return emitter_.maskBelow(math_.sub(extents_.columns, math_.add(first, v * lanes_)), lanes_);
}

Value TileEmitter::resultColumn(Value first) {
  return contraction_.conv() ? math_.add(math_.mul(batch_, extents_.columns), first) : first;
}

void TileEmitter::beginResultRow(Value row) {
  ArrayRef<Value> dims(outDims_);
  if (contraction_.conv() || cast<RankedTensorType>(contraction_.panels.getType()).getRank() == 3) {
    prefix_ = math_.delinear(row, dims.drop_back());
    row_ = row;
  } else {
    prefix_ = math_.delinear(batch_, dims.drop_back(2));
    prefix_.push_back(row);
    row_ = math_.add(math_.mul(batch_, extents_.rows), row);
  }
}

void TileEmitter::finishVector(size_t row, Value sum, Value column, Value mask) {
  int64_t lanes = cast<VectorType>(sum.getType()).getNumElements();
  Position at{prefix_, lanes, mask};
  at.indices.push_back(column);
  if (contraction_.bias) {
    Value bias = emitter_.element(contraction_.bias, {{column}, lanes, mask});
    sum = emitSum(sum, bias);
  }
  Value defined = beginsSubtracted() ? subtracted_.getResult() : contraction_.root->getResult(0);
  emitter_.define(defined, [sum](const Position &) { return sum; });
  finish_(at, rows_.slots[row], row_);
}

SmallVector<Value> TileEmitter::zeros(int64_t vectors) {
  auto &builder = emitter_.builder();
  auto type = VectorType::get({lanes_}, contraction_.accumulator);
  Value zero = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type));
  return SmallVector<Value>(llvm::alignTo(rows_.size(), rowsAtOnce()) * vectors, zero);
}

SmallVector<Value> TileEmitter::beginnings(Value first, int64_t vectors, int64_t masked) {
  SmallVector<Value> sums = zeros(vectors);
  if (!beginsSubtracted())
    return sums;
  Value columns = subtracted_.getB(), start = resultColumn(first);
  Position at{
      SmallVector<Value>(cast<RankedTensorType>(columns.getType()).getRank(), math_.constant(0)),
      lanes_,
      {}};
  for (int64_t v = 0; v < vectors; ++v) {
    at.indices.back() = math_.add(start, v * lanes_);
    at.mask = maskOf(first, v, vectors, masked);
    Value less = emitter_.builder().create<arith::SubIOp>(math_.location, sums[size_t(v)],
                                                          emitter_.element(columns, at));
    for (size_t row = 0; row < rows_.size(); ++row)
      sums[row * size_t(vectors) + size_t(v)] = less;
  }
  return sums;
}

SmallVector<Value> TileEmitter::untangled(ArrayRef<Value> sums, int64_t vectors) {
  if (rowsAtOnce() == 1)
    return SmallVector<Value>(sums);
  // A block's part of a row moves as one integer, for which machines have an instruction.
  auto &builder = emitter_.builder();
  int64_t half = lanes_ / kRows, ofBlock = products_->lanes ? products_->lanes : half;
  unsigned bits = contraction_.accumulator.getIntOrFloatBitWidth();
  auto type = VectorType::get({lanes_ / ofBlock}, builder.getIntegerType(bits * unsigned(ofBlock)));
  auto inParts = [&](Value block) -> Value {
    return builder.create<LLVM::BitcastOp>(math_.location, type, block);
  };
  SmallVector<Value> all;
  for (int64_t row = 0; row < int64_t(rows_.size()); ++row) {
    // The blocks of a vector's columns lie in two vectors; each block has both rows.
    SmallVector<int64_t> places;
    for (int64_t part = 0; part < lanes_ / ofBlock; ++part)
      places.push_back(part * kRows + row % kRows);
    for (int64_t v = 0; v < vectors; ++v) {
      size_t first = size_t((row / kRows * vectors + v) * kRows);
      Value parts = builder.create<vector::ShuffleOp>(math_.location, inParts(sums[first]),
                                                      inParts(sums[first + 1]), places);
      all.push_back(builder.create<LLVM::BitcastOp>(math_.location, sums[first].getType(), parts));
    }
  }
  return all;
}

SmallVector<Value> TileEmitter::withWaitingSums(Value panel, ArrayRef<Value> sums,
                                                int64_t vectors) {
  auto &builder = emitter_.builder();
  Location location = math_.location;
  auto types = llvm::to_vector(ValueRange(sums).getTypes());
  auto choice = builder.create<scf::IfOp>(location, types, part_.isFirst, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(choice.thenBlock());
  builder.create<scf::YieldOp>(location, sums);
  builder.setInsertionPointToEnd(choice.elseBlock());
  SmallVector<Value> all;
  for (auto [number, sum] : llvm::enumerate(sums))
    all.push_back(emitSum(
        builder.create<LLVM::LoadOp>(location, sum.getType(), waitingSum(panel, number, vectors)),
        sum));
  builder.create<scf::YieldOp>(location, all);
  return SmallVector<Value>(choice.getResults());
}

Value TileEmitter::waitingSum(Value panel, size_t number, int64_t vectors) {
  Value lines = math_.mul(math_.sub(panel, part_.firstPanel), part_.rows);
  Value line = math_.add(lines, rows_.slots[number / vectors]);
  Value place = math_.add(math_.mul(line, contraction_.width), number % vectors * lanes_);
  return elementPointer(math_, contraction_.accumulator, part_.sums, place);
}

Value TileEmitter::panelStart(Value panel) {
  return math_.mul(math_.mul(panelNumber(panel), source_.totalDepth()), contraction_.width);
}

SmallVector<Value> TileEmitter::emitSums(Value panel, ValueRange sums, int64_t vectors) {
  SmallVector<Value> tap;
  return untangled(emitTaps(panel, panelStart(panel), tap, math_.constant(0), sums, vectors),
                   vectors);
}

SmallVector<Value> TileEmitter::emitTaps(Value panel, Value start, SmallVector<Value> &tap,
                                         Value place, ValueRange sums, int64_t vectors) {
  ArrayRef<int64_t> taps = source_.taps();
  if (tap.size() == taps.size()) {
    Value depth = source_.depth(), before = math_.mul(place, depth);
    Value first = math_.add(start, math_.mul(before, contraction_.width));
    Value next = part_.sums ? nextPart(panel, start, before) : nextPanel(start, before);
    Value reaches = source_.reaches(tap);
    if (!reaches)
      return emitDepth(first, next, source_.rowPointers(tap), sums, vectors);
    auto &builder = emitter_.builder();
    Location location = math_.location;
    auto choice = builder.create<scf::IfOp>(location, sums.getTypes(), reaches, /*withElse=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(choice.elseBlock());
    builder.create<scf::YieldOp>(location, sums);
    builder.setInsertionPointToEnd(choice.thenBlock());
    builder.create<scf::YieldOp>(location,
                                 emitDepth(first, next, source_.rowPointers(tap), sums, vectors));
    return SmallVector<Value>(choice.getResults());
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
  auto fromZero = [&](Value index, ValueRange carried) {
    SmallVector<Value> all = inner(index, zeros(vectors));
    for (auto [sum, before] : llvm::zip_equal(all, carried))
      sum = emitSum(before, sum);
    return all;
  };
  auto emit = [&](auto body) {
    return emitReduction(math_, math_.constant(0), math_.constant(extent), math_.constant(1), sums,
                         body);
  };
  return addsChains(tap.size()) ? emit(fromZero) : emit(inner);
}

bool TileEmitter::addsChains(size_t dim) const {
  auto depth = constantIndex(source_.depth());
  if (!depth || !isa<FloatType>(contraction_.accumulator))
    return false;
  int64_t products = *depth;
  ArrayRef<int64_t> taps = source_.taps();
  for (size_t inner = taps.size(); --inner > dim; products *= taps[inner])
    if (taps[inner] > 1 && products >= kProductsOfChain)
      return false;
  return products >= kProductsOfChain;
}

Value TileEmitter::select(Value condition, Value a, Value b) {
  return emitter_.builder().create<arith::SelectOp>(math_.location, condition, a, b);
}

Value TileEmitter::panelPointer(Value element) {
  return elementPointer(math_, getElementTypeOrSelf(contraction_.panels.getType()),
                        emitter_.buffer(contraction_.panels), element);
}

Value TileEmitter::moved(Value pointer, Value bytes) {
  auto &builder = emitter_.builder();
  return builder.create<LLVM::GEPOp>(math_.location, pointer.getType(), builder.getI8Type(),
                                     pointer, ValueRange{math_.toI64(bytes)});
}

SmallVector<Value> TileEmitter::emitDepth(Value first, Value next, ValueRange rowPointers,
                                          ValueRange sums, int64_t vectors) {
  Value depth = part_.sums ? math_.sub(part_.end, part_.begin) : source_.depth();
  SmallVector<Value> rows(rowPointers);
  if (part_.sums) {
    // Counted from where the part begins: LLVM then makes one address for the steps of an
    // iteration.
    Value skipped = source_.along(part_.begin);
    for (Value &row : rows)
      row = elementPointer(math_, getElementTypeOrSelf(contraction_.left.getType()), row, skipped);
    first = math_.add(first, math_.mul(part_.begin, contraction_.width));
    next = bytesFrom(next, part_.begin);
  }
  Value panel = panelPointer(first);
  auto step = [&](Value k, int64_t ahead, ValueRange carried, ValueRange blocks = {}) {
    return emitStep(panel, next, k, ahead, rows, carried, vectors, blocks);
  };
  auto oneStep = [&](Value k, ValueRange carried) { return step(k, 0, carried); };
  if (sums.empty())
    return emitReduction(math_, math_.constant(0), depth, math_.constant(contraction_.step), sums,
                         oneStep);
  // As many in a panel that is cut off, so that equal columns have equal sums.
  int64_t sumsOfStep = std::max<int64_t>(rows_.rowsOfSums * (contraction_.width / lanes_), 1);
  int64_t chains = llvm::divideCeil(kIndependentSums, sumsOfStep);
  Type type = sums[0].getType();
  Value nothing = emitter_.builder().create<arith::ConstantOp>(
      math_.location, emitter_.builder().getZeroAttr(type));
  // As many as the tile that is chosen by itself has: of more rows, pointers don't fit either.
  bool isHeld = rowPointers.size() <= kTileRows && int64_t(sums.size()) * 4 <= vectorRegisters_ * 3;
  SmallVector<Value> all(sums);
  all.resize(sums.size() * chains, nothing);
  bool bursts = takesBursts(int64_t(rows.size()), vectors, chains);
  int64_t steps = llvm::alignTo(stepsOfIteration(bursts), chains);
  // Rows that lie an unknown number of bytes apart, as those do of which one may not be there: LLVM
  // would make each pointer of the one before in every iteration, and keep sums in memory for that.
  // Their loads of a step, which have no address in common, it would bring together before the
  // first of them is multiplied: then registers are too few, and a row waits for the one before.
  bool mayLack = llvm::any_of(rows_.isThere, [](Value isThere) { return bool(isThere); });
  llvm::SaveAndRestore areApart(rowsApart_, hold_ && isHeld && (mayLack || !constantIndex(depth)) &&
                                                rows.size() > 1);
  bool goesAlong = hold_ && isHeld && products_ && products_->has(ShortReach);
  if (rowsApart_ || (goesAlong && rowsAtOnce() == 1 && rows.size() > 1))
    hold_(emitter_.builder(), math_.location, rows);
  Value one = math_.constant(contraction_.step);
  Value rounds = math_.div(depth, math_.constant(steps * contraction_.step));
  // Of an iteration's steps, each goes through a part of the sum, or all go side by side.
  auto known = constantIndex(depth);
  bool isShort = known && *known * lineBytes() < steps * kStreamBytes;
  bool hasParts = chains > 1 && !isShort;
  Value part = math_.mul(rounds, one), whole = math_.mul(part, steps);
  all = emitReduction(
      math_, math_.constant(0), hasParts ? part : whole,
      hasParts ? one : math_.constant(steps * contraction_.step), all,
      [&](Value round, ValueRange carried) {
        if (bursts)
          return emitBursts(panel, next, round, steps, rows, carried, vectors);
        SmallVector<Value> results(carried);
        SmallVector<SmallVector<Value>> blocks(2);
        bool loadsTwo =
            rowsAtOnce() > 1 && chains == 1 && source_.liesSideBySide() && steps % 2 == 0;
        llvm::SaveAndRestore restored(panel);
        llvm::SaveAndRestore restoredRows(rows);
        llvm::SaveAndRestore restoredLine(line_);
        if (goesAlong && !hasParts)
          beginIteration(panel, round, rows);
        for (int64_t number = 0; number < steps; ++number) {
          auto chain = MutableArrayRef(results).slice(number % chains * sums.size(), sums.size());
          Value k = hasParts ? math_.add(round, math_.mul(part, number)) : round;
          int64_t ahead = hasParts ? 0 : number * contraction_.step;
          if (line_ && (ahead || rowsAtOnce() > 1))
            line_ = behind(ahead ? lineAhead(line_) : line_, chain);
          else if (ahead && isHeld)
            panel = behind(panel, chain);
          if (loadsTwo && number % 2 == 0)
            blocks = loadBlocks(rows, k, ahead, /*steps=*/2);
          llvm::copy(step(k, ahead, ValueRange(chain), blocks[number % 2]), chain.begin());
        }
        return results;
      });
  for (size_t sum = sums.size(); sum < all.size(); ++sum)
    all[sum % sums.size()] = emitSum(all[sum % sums.size()], all[sum]);
  all.resize(sums.size());
  return emitReduction(math_, whole, depth, one, all, oneStep);
}

void TileEmitter::beginIteration(Value panel, Value k, MutableArrayRef<Value> rows) {
  Type left = getElementTypeOrSelf(contraction_.left.getType());
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  line_ = elementPointer(math_, right, panel, math_.mul(k, contraction_.width));
  if (rowsAtOnce() > 1)
    return; // their loads' offsets reach all steps of an iteration
  for (Value &row : rows)
    row = elementPointer(math_, left, row, source_.along(k));
  // LLVM would make them of others, which lie too far away.
  hold_(emitter_.builder(), math_.location, rows);
}

Value TileEmitter::lineAhead(Value line) {
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  return elementPointer(math_, right, line, math_.constant(contraction_.step * contraction_.width));
}

SmallVector<Value> TileEmitter::emitStep(Value panel, Value next, Value k, int64_t ahead,
                                         ValueRange rowPointers, ValueRange sums, int64_t vectors,
                                         ValueRange blocks) {
  auto &builder = emitter_.builder();
  Type left = getElementTypeOrSelf(contraction_.left.getType());
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  // Where k is, and what the steps of an iteration are apart, are added one after the other: the
  // latter is then part of an instruction.
  auto at = [&](Type element, Value base, llvm::function_ref<Value(Value)> along) {
    Value here = line_ ? base : elementPointer(math_, element, base, along(k));
    return ahead ? elementPointer(math_, element, here, along(math_.constant(ahead))) : here;
  };
  auto alongPanel = [&](Value steps) { return math_.mul(steps, contraction_.width); };
  auto alongRow = [&](Value steps) { return source_.along(steps); };
  prefetch(next, k, ahead, int64_t(rowPointers.size()) >= kTileRows);
  Value line = line_ ? line_ : at(right, panel, alongPanel), zero = math_.constant(0);
  if (!blocks.empty())
    return emitBlocks(line, blocks, sums, vectors);
  if (rowsAtOnce() > 1)
    return emitBlocks(line, loadBlocks(rowPointers, k, ahead, /*steps=*/1)[0], sums, vectors);
  SmallVector<Value> b, results;
  for (int64_t v = 0; v < vectors; ++v)
    b.push_back(products_
                    ? loadRight(line, v, lanes_ * contraction_.step)
                    : widen(emitter_.load(line, right, math_.constant(v * lanes_), lanes_), right));
  for (auto [row, pointer] : llvm::enumerate(rowPointers)) {
    if (row > 0 && rowsApart_)
      k = builder.create<arith::IndexCastOp>(
          math_.location, k.getType(),
          behind(math_.toI64(k), MutableArrayRef(results).take_back(size_t(vectors))));
    Value place = at(left, pointer, alongRow);
    Value a = products_ ? loadStep(place, left)
                        : emitter_.splat(widen(emitter_.load(place, left, zero), left), lanes_);
    for (int64_t v = 0; v < vectors; ++v) {
      Value sum = sums[row * size_t(vectors) + size_t(v)];
      results.push_back(
          products_ ? products_->emit(builder, math_.location, a, b[size_t(v)], sum)
                    : emitMultiplyAdd(builder, math_.location, a, false, b[size_t(v)], false, sum));
    }
  }
  return results;
}

SmallVector<SmallVector<Value>> TileEmitter::loadBlocks(ValueRange rows, Value k, int64_t ahead,
                                                        int64_t steps) {
  auto &builder = emitter_.builder();
  Type element = getElementTypeOrSelf(contraction_.left.getType());
  unsigned bits = storageType(element).getIntOrFloatBitWidth();
  auto type = VectorType::get({steps}, builder.getIntegerType(bits * unsigned(contraction_.step)));
  SmallVector<SmallVector<Value>> blocks{size_t(steps)};
  auto load = [&](size_t row) -> Value {
    Value place = source_.along(k);
    Value pointer = elementPointer(math_, element, rows[std::min(row, rows.size() - 1)], place);
    if (ahead)
      pointer = elementPointer(math_, element, pointer, source_.along(math_.constant(ahead)));
    return builder.create<LLVM::LoadOp>(math_.location, type, pointer, bits / 8);
  };
  for (size_t row = 0; row < rows.size(); row += size_t(rowsAtOnce())) {
    Value first = load(row), second = load(row + 1); // the last one instead of none
    for (int64_t step = 0; step < steps; ++step)
      blocks[size_t(step)].push_back(builder.create<vector::ShuffleOp>(
          math_.location, first, second, ArrayRef<int64_t>{step, steps + step}));
  }
  return blocks;
}

/// All of A first, of which there is less: a vector of B is multiplied as it comes.
SmallVector<Value> TileEmitter::emitBlocks(Value line, ValueRange left, ValueRange sums,
                                           int64_t vectors) {
  int64_t blocks = vectors * rowsAtOnce(); // of a line
  SmallVector<Value> results(sums);
  for (int64_t number = 0; number < blocks; ++number) {
    Value b = loadRight(line, number, lanes_ / rowsAtOnce() * contraction_.step);
    for (auto [group, block] : llvm::enumerate(left)) {
      Value &sum = results[group * size_t(blocks) + size_t(number)];
      sum = products_->emit(emitter_.builder(), math_.location, block, b, sum);
    }
  }
  return results;
}

Value TileEmitter::loadRight(Value line, int64_t number, int64_t count) {
  auto &builder = emitter_.builder();
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  // Halves as their bits.
  Type code = right.isBF16() ? Type(builder.getI16Type()) : right;
  Value loaded = emitter_.load(line, code, math_.constant(number * count), count);
  if (products_->right != Number::I16 || !code.isInteger(8))
    return loaded;
  Type wide = VectorType::get({count}, builder.getI16Type());
  return builder.create<arith::ExtSIOp>(math_.location, wide, loaded);
}

bool TileEmitter::takesBursts(int64_t rows, int64_t vectors, int64_t chains) const {
  bool areWhole = steps_.value_or(kStepsOfIteration) % kStepsOfIteration == 0;
  return burst_ && chains == 1 && areWhole && source_.liesSideBySide() &&
         rows * vectors + rows + vectors * burst_->steps < vectorRegisters_;
}

int64_t TileEmitter::stepsOfIteration(bool bursts) const {
  if (steps_)
    return *steps_;
  if (auto depth = constantIndex(source_.depth()); depth && bursts)
    for (int64_t steps : {4 * kStepsOfIteration, 2 * kStepsOfIteration})
      if (*depth % (steps * contraction_.step) == 0)
        return steps;
  return kStepsOfIteration;
}

Value TileEmitter::loadLanes(Value row, Value k) {
  Type element = getElementTypeOrSelf(contraction_.left.getType());
  Value pointer = elementPointer(math_, element, row, k);
  unsigned bits = storageType(element).getIntOrFloatBitWidth();
  auto type = VectorType::get({kStepsOfIteration}, togetherLoaded(element));
  return emitter_.builder().create<LLVM::LoadOp>(math_.location, type, pointer, bits / 8);
}

SmallVector<Value> TileEmitter::emitBursts(Value panel, Value next, Value k, int64_t steps,
                                           ValueRange rowPointers, ValueRange sums,
                                           int64_t vectors) {
  auto &builder = emitter_.builder();
  Type leftElement = getElementTypeOrSelf(contraction_.left.getType());
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  SmallVector<Value> results(sums), left;
  int64_t ofStep = fetchedBytes_ * contraction_.step;
  Value line = elementPointer(math_, right, panel, math_.mul(k, contraction_.width)), place = k;
  auto loadLine = [&](int64_t ahead, int64_t v) {
    Value here = elementPointer(math_, right, line,
                                math_.constant(ahead * contraction_.step * contraction_.width));
    return products_ ? loadRight(here, v, lanes_ * contraction_.step)
                     : emitter_.load(here, right, math_.constant(v * lanes_), lanes_);
  };
  for (int64_t number = 0; number < steps; number += burst_->steps) {
    if (number)
      line = behind(line, results);
    SmallVector<Value> loaded;
    for (int64_t ahead = number; ahead < number + burst_->steps; ++ahead) {
      // What tiles share of a line is asked for once.
      if (ahead == 0 || ahead * ofStep / kCacheLineBytes != (ahead - 1) * ofStep / kCacheLineBytes)
        prefetch(next, k, ahead * contraction_.step, int64_t(rowPointers.size()) >= burst_->rows);
      for (int64_t v = 0; v < vectors; ++v)
        loaded.push_back(loadLine(ahead, v));
    }
    size_t lines = loaded.size();
    if (number % kStepsOfIteration == 0) {
      // Of the steps behind the first four LLVM would load what rows have at once with theirs, or
      // make other pointers to the rows.
      if (number)
        place = math_.add(place, kStepsOfIteration * contraction_.step);
      if (steps > kStepsOfIteration)
        place = builder.create<arith::IndexCastOp>(math_.location, k.getType(),
                                                   behind(math_.toI64(place), results));
      for (Value row : rowPointers)
        loaded.push_back(loadLanes(row, place));
      hold_(builder, math_.location, loaded);
      left.assign(loaded.begin() + int64_t(lines), loaded.end());
    } else {
      hold_(builder, math_.location, loaded);
    }
    for (int64_t ahead = 0; ahead < burst_->steps; ++ahead)
      for (auto [row, elements] : llvm::enumerate(left)) {
        SmallVector<int64_t> lane(size_t(lanes_), number % kStepsOfIteration + ahead);
        Value a = builder.create<vector::ShuffleOp>(math_.location, elements, elements, lane);
        for (int64_t v = 0; v < vectors; ++v) {
          Value &sum = results[row * size_t(vectors) + size_t(v)];
          Value b = loaded[size_t(ahead * vectors + v)];
          sum = products_ ? products_->emit(builder, math_.location, a, b, sum)
                          : emitMultiplyAdd(builder, math_.location, widen(a, leftElement), false,
                                            widen(b, right), false, sum);
        }
      }
  }
  return results;
}

Type TileEmitter::togetherLoaded(Type element) {
  unsigned bits = storageType(element).getIntOrFloatBitWidth() * unsigned(contraction_.step);
  bool isSum = bits == contraction_.accumulator.getIntOrFloatBitWidth();
  return isSum ? contraction_.accumulator : Type(emitter_.builder().getIntegerType(bits));
}

Value TileEmitter::loadStep(Value pointer, Type element) {
  unsigned bits = storageType(element).getIntOrFloatBitWidth();
  Type together = togetherLoaded(element);
  Value elements =
      emitter_.builder().create<LLVM::LoadOp>(math_.location, together, pointer, bits / 8);
  if (!hold_ || !products_ || !products_->has(TakesLane))
    return emitter_.splat(elements, lanes_);
  // LLVM would fill a register as it loads, by an instruction that has no offset: it doesn't see
  // where the lane comes from.
  auto &builder = emitter_.builder();
  Value lane = builder.create<LLVM::UndefOp>(math_.location, VectorType::get({lanes_}, together));
  Value first = builder.create<LLVM::ConstantOp>(math_.location, builder.getI32IntegerAttr(0));
  lane = builder.create<LLVM::InsertElementOp>(math_.location, lane, elements, first);
  hold_(builder, math_.location, lane);
  return builder.create<vector::ShuffleOp>(math_.location, lane, lane,
                                           SmallVector<int64_t>(size_t(lanes_), 0));
}

Value TileEmitter::behind(Value place, MutableArrayRef<Value> sums) {
  if (!hold_)
    return place;
  SmallVector<Value> values{place};
  llvm::append_range(values, sums);
  hold_(emitter_.builder(), math_.location, values);
  llvm::copy(ArrayRef(values).drop_front(), sums.begin());
  return values[0];
}

Value TileEmitter::emitSum(Value a, Value b) {
  auto &builder = emitter_.builder();
  if (isa<FloatType>(contraction_.accumulator))
    return builder.create<arith::AddFOp>(math_.location, a, b);
  return builder.create<arith::AddIOp>(math_.location, a, b);
}

Value TileEmitter::widen(Value value, Type tensorElement) {
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

Value TileEmitter::panelNumber(Value panel) {
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

} // namespace tensmith::kernel
