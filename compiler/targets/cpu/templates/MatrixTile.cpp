// Emits the matrix unit's instructions, with the tiles' numbers in them; see MatrixTile.h.
#include "compiler/targets/cpu/templates/MatrixTile.h"

#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

// Numbers of tiles: sums of (rows, columns), then those of A and of B.
constexpr int64_t kSums = 0, kLeft = 4, kRight = 6, kTiles = 8;
constexpr int64_t kSumBytes = 4;
// An odd number of lines: with two, networks take 2 % longer.
constexpr int64_t kSumPitch = MatrixTile::kColumns * kSumBytes + MatrixTile::kLineBytes;
// Scratch: the configuration, sums, rows that were copied.
constexpr int64_t kConfiguration = 0, kSumsAt = 64;
constexpr int64_t kRowsAt = kSumsAt + MatrixTile::kRows * kSumPitch;

/// In a step of the depth; what the second level holds from run to run needs none.
int64_t linesToPrefetch(const Contraction &contraction, int64_t bytes, int64_t l2Bytes,
                        Value tiles) {
  constexpr int64_t kTilesOfUnknown = 4;
  auto panels = cast<RankedTensorType>(contraction.panels.getType());
  if (panels.hasStaticShape() && panels.getNumElements() * bytes <= l2Bytes / 2)
    return 0;
  int64_t sharedBy = std::max<int64_t>(constantIndex(tiles).value_or(kTilesOfUnknown), 1);
  return int64_t(llvm::divideCeil(contraction.width, sharedBy));
}

} // namespace

int64_t MatrixTile::elementBytes() const {
  return storageType(getElementTypeOrSelf(contraction_.left.getType())).getIntOrFloatBitWidth() / 8;
}

MatrixTile::MatrixTile(ElementEmitter &emitter, const Contraction &contraction, RowSource &source,
                       const Machine &machine, Value tiles, Value panels)
    : emitter_(emitter), math_(emitter.math), contraction_(contraction), source_(source),
      unit_(*machine.matrixUnit), multiplication_(*tileProductsOf(contraction, machine)),
      products_(*constantIndex(source.totalDepth())),
      fetchedLines_(linesToPrefetch(contraction, elementBytes(), machine.l2Bytes, tiles)) {
  auto knownTiles = constantIndex(tiles), knownPanels = constantIndex(panels);
  auto all = cast<RankedTensorType>(contraction.panels.getType());
  auto run = source.runFrom(math_.constant(0));
  if (!knownTiles || !run || run->bytes <= machine.l2Bytes / 2 ||
      knownPanels != all.getShape()[all.getRank() - 3])
    return;
  tiles_ = *knownTiles;
  int64_t steps = *knownPanels * (products_ / productsOfTile(contraction.step));
  fetchedLinesOfRows_ = llvm::divideCeil(kRows * run->bytesOfRow, kLineBytes * steps);
}

Value MatrixTile::scratchBytes() {
  Value rows = source_.takesScratch() ? math_.constant(0) : math_.mul(source_.pitch(), kRows);
  return math_.add(rows, kRowsAt);
}

Value MatrixTile::scratch(Value bytes) { return bytesFrom(scratch_, bytes); }

Value MatrixTile::bytesFrom(Value pointer, Value bytes) {
  return bytePointer(math_, pointer, bytes);
}

void MatrixTile::multiply(int64_t sum, int64_t left, int64_t right) {
  auto &builder = emitter_.builder();
  auto number = [&](int64_t tile) -> Value {
    return builder.create<LLVM::ConstantOp>(math_.location, builder.getI8Type(),
                                            builder.getI8IntegerAttr(int8_t(tile)));
  };
  Value sums = number(sum), a = number(left), b = number(right);
  multiplication_.emit(builder, math_.location, a, b, sums);
}

void MatrixTile::begin(Value scratchMemory) {
  scratch_ = scratchMemory;
  unit_.begin(emitter_.builder(), math_.location, scratch(math_.constant(kConfiguration)), kTiles);
}

void MatrixTile::end() { unit_.end(emitter_.builder(), math_.location); }

void MatrixTile::copyRest(Value batch, Value first, Value count) {
  auto copy = [&](Value row) {
    Value from = source_.evenRow(batch, math_.add(first, row), row);
    Value to = scratch(math_.add(math_.mul(row, source_.pitch()), kRowsAt));
    source_.copyPiece(to, from, *constantIndex(source_.depth()));
  };
  emitIf(math_, math_.less(count, math_.constant(kRows)),
         [&] { emitFor(math_, math_.constant(0), count, math_.constant(1), copy); });
}

void MatrixTile::beginRows(Value batch, Value first, Value count, Value slot) {
  batch_ = batch;
  first_ = first;
  count_ = count;
  slot_ = slot;
}

Value MatrixTile::sums(Value row, int64_t column) {
  auto type = VectorType::get({kLines}, contraction_.accumulator);
  Value place = math_.add(math_.mul(row, kSumPitch), math_.constant(kSumsAt + column * kSumBytes));
  return emitter_.builder().create<LLVM::LoadOp>(math_.location, type, scratch(place),
                                                 /*alignment=*/kSumBytes);
}

void MatrixTile::emitSums(Value panel, Value start, int64_t columns) {
  auto sum = [&](bool both) {
    auto forEachTile = [&](llvm::function_ref<void(int64_t, Value)> body) {
      for (int64_t row = 0; row < 1 + both; ++row)
        for (int64_t column = 0; column < columns / kLines; ++column) {
          int64_t place = kSumsAt + row * kLines * kSumPitch + column * kLineBytes;
          body(kSums + row * 2 + column, scratch(math_.constant(place)));
        }
    };
    Value pitch = math_.constant(kSumPitch);
    auto &builder = emitter_.builder();
    forEachTile([&](int64_t tile, Value) { unit_.zero(builder, math_.location, tile); });
    emitDepth(panel, start, columns, both);
    forEachTile([&](int64_t tile, Value place) {
      unit_.store(builder, math_.location, tile, place, pitch);
    });
  };
  emitIf(
      math_, math_.less(math_.constant(kLines), count_), [&] { sum(true); }, [&] { sum(false); });
}

Value MatrixTile::bytesToProduct(Value k) {
  if (!source_.pads())
    return math_.mul(k, elementBytes());
  SmallVector<Value> window;
  for (int64_t extent : source_.taps())
    window.push_back(math_.constant(extent));
  Value tap = math_.div(k, source_.depth());
  Value inTap = math_.sub(k, math_.mul(tap, source_.depth()));
  return math_.add(source_.tapBytes(math_.delinear(tap, window)), math_.mul(inTap, elementBytes()));
}

void MatrixTile::prefetchLines(Value pointer, Value begin, int64_t count) {
  constexpr int kSecondLevel = 2, kData = 1; // operands
  for (int64_t line = 0; line < count; ++line) {
    Value place = math_.mul(math_.add(begin, line), kLineBytes);
    emitter_.builder().create<LLVM::Prefetch>(math_.location, bytesFrom(pointer, place), /*rw=*/0,
                                              kSecondLevel, kData);
  }
}

void MatrixTile::prefetchPanel(Value start, Value k) {
  Value next = elementPointer(math_, getElementTypeOrSelf(contraction_.panels.getType()),
                              emitter_.buffer(contraction_.panels),
                              math_.add(start, products_ * contraction_.width));
  Value tile = math_.div(slot_, math_.constant(kRows));
  Value before = stepsBefore(tile, k);
  prefetchLines(next, math_.mul(before, fetchedLines_), fetchedLines_);
}

void MatrixTile::prefetchRows(Value panel, Value k) {
  Value next = math_.add(math_.sub(first_, slot_), tiles_ * kRows);
  Value tile = math_.add(math_.mul(panel, tiles_), math_.div(slot_, math_.constant(kRows)));
  prefetchLines(source_.runFrom(next)->first, math_.mul(stepsBefore(tile, k), fetchedLinesOfRows_),
                fetchedLinesOfRows_);
}

/// Of the depth, by so many tiles that do all of it, and one that is at `k`.
Value MatrixTile::stepsBefore(Value tiles, Value k) {
  return math_.div(math_.add(math_.mul(tiles, products_), k),
                   math_.constant(productsOfTile(contraction_.step)));
}

void MatrixTile::emitDepth(Value panel, Value start, int64_t columns, bool both) {
  auto load = [&](int64_t tile, Value pointer, Value pitch) {
    unit_.load(emitter_.builder(), math_.location, tile, pointer, pitch);
  };
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  Value panels = emitter_.buffer(contraction_.panels);
  Value linePitch = math_.constant(contraction_.width * contraction_.step * elementBytes());
  Value pitch = source_.pitch(), rows = source_.evenRow(batch_, first_, slot_);
  if (!source_.takesScratch())
    rows = math_.select(math_.less(count_, math_.constant(kRows)), scratch(math_.constant(kRowsAt)),
                        rows);
  Value step = math_.constant(productsOfTile(contraction_.step));
  emitFor(math_, math_.constant(0), math_.constant(products_), step, [&](Value k) {
    if (fetchedLines_)
      prefetchPanel(start, k);
    if (fetchedLinesOfRows_)
      prefetchRows(panel, k);
    Value line =
        elementPointer(math_, right, panels, math_.add(start, math_.mul(k, contraction_.width)));
    for (int64_t column = 0; column < columns / kLines; ++column)
      load(kRight + column, bytesFrom(line, math_.constant(column * kLineBytes)), linePitch);
    Value left = bytesFrom(rows, bytesToProduct(k));
    for (int64_t row = 0; row < 1 + both; ++row) {
      Value ofTile = row ? bytesFrom(left, math_.mul(pitch, kLines)) : left;
      load(kLeft + row, ofTile, pitch);
      for (int64_t column = 0; column < columns / kLines; ++column)
        multiply(kSums + row * 2 + column, kLeft + row, kRight + column);
    }
  });
}

} // namespace tensmith::kernel
