// Emits the matrix unit's instructions, with the tiles' numbers in them; see MatrixTile.h.
#include "compiler/kernel/MatrixTile.h"

#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

// Numbers of tiles: sums of (rows, columns), then those of A and of B.
constexpr int64_t kSums = 0, kLeft = 4, kRight = 6, kTiles = 8;
constexpr int64_t kSumBytes = 4;
constexpr int64_t kSumPitch = MatrixTile::kColumns * kSumBytes;
// Scratch: the configuration, sums, rows that were copied.
constexpr int64_t kConfiguration = 0, kSumsAt = 64,
                  kRowsAt = kSumsAt + MatrixTile::kRows * kSumPitch;

} // namespace

int64_t MatrixTile::elementBytes() const {
  return storageType(getElementTypeOrSelf(contraction_.left.getType())).getIntOrFloatBitWidth() / 8;
}

Value MatrixTile::scratchBytes() {
  Value rows = source_.takesScratch() ? math_.constant(0) : math_.mul(source_.pitch(), kRows);
  return math_.add(rows, kRowsAt);
}

Value MatrixTile::scratch(Value bytes) { return bytesFrom(scratch_, bytes); }

Value MatrixTile::bytesFrom(Value pointer, Value bytes) {
  return elementPointer(math_, emitter_.builder().getI8Type(), pointer, bytes);
}

void MatrixTile::call(StringRef instruction, ArrayRef<int64_t> tiles, Value pointer, Value pitch) {
  auto &builder = emitter_.builder();
  SmallVector<Value> operands;
  for (int64_t tile : tiles)
    operands.push_back(builder.create<LLVM::ConstantOp>(math_.location, builder.getI8Type(),
                                                        builder.getI8IntegerAttr(int8_t(tile))));
  if (pointer)
    operands.push_back(pointer);
  if (pitch)
    operands.push_back(math_.toI64(pitch));
  builder.create<LLVM::CallIntrinsicOp>(math_.location, TypeRange(),
                                        builder.getStringAttr("llvm.x86." + instruction.str()),
                                        operands);
}

void MatrixTile::begin(Value scratchMemory) {
  scratch_ = scratchMemory;
  auto &builder = emitter_.builder();
  // The operand of ldtilecfg: palette 1; from byte 16 on bytes of a line, from 48 on lines.
  std::array<int8_t, 64> bytes = {1};
  for (int64_t tile = 0; tile < kTiles; ++tile) {
    bytes[size_t(16 + 2 * tile)] = kLineBytes;
    bytes[size_t(48 + tile)] = kLines;
  }
  auto type = VectorType::get({int64_t(bytes.size())}, builder.getI8Type());
  Value configuration = builder.create<arith::ConstantOp>(
      math_.location, DenseElementsAttr::get(type, ArrayRef<int8_t>(bytes)));
  Value place = scratch(math_.constant(kConfiguration));
  builder.create<LLVM::StoreOp>(math_.location, configuration, place, /*alignment=*/1);
  call("ldtilecfg", {}, place);
}

void MatrixTile::end() { call("tilerelease", {}); }

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

void MatrixTile::beginPrefetch(Value tile, Value most) {
  constexpr int64_t kTilesOfUnknown = 4;
  constexpr int64_t kMostLines = 8; // of more, those that the products wait for have to wait
  tile_ = tile;
  auto panels = cast<RankedTensorType>(contraction_.panels.getType());
  // What the second level holds from run to run needs none.
  bool isNear = panels.hasStaticShape() && panels.getNumElements() * elementBytes() <= l2Bytes_ / 2;
  int64_t tiles = std::max<int64_t>(constantIndex(most).value_or(kTilesOfUnknown), 1);
  int64_t lines = contraction_.width / kLines * kLines; // of a step's tiles of B
  fetchedLines_ = isNear ? 0 : std::min(int64_t(llvm::divideCeil(lines, tiles)), kMostLines);
}

Value MatrixTile::sums(Value row, int64_t column) {
  auto type = VectorType::get({kLines}, contraction_.accumulator);
  Value place = math_.add(math_.mul(row, kSumPitch), kSumsAt + column * kSumBytes);
  return emitter_.builder().create<LLVM::LoadOp>(math_.location, type, scratch(place),
                                                 /*alignment=*/4);
}

void MatrixTile::emitSums(Value start, int64_t columns) {
  auto sum = [&](bool both) {
    SmallVector<int64_t> tiles;
    for (int64_t row = 0; row < 1 + both; ++row)
      for (int64_t column = 0; column < columns / kLines; ++column)
        tiles.push_back(kSums + row * 2 + column);
    for (int64_t tile : tiles)
      call("tilezero", tile);
    emitTaps(start, columns, both);
    for (int64_t tile : tiles) {
      int64_t place = kSumsAt + tile / 2 * kLines * kSumPitch + tile % 2 * kLineBytes;
      call("tilestored64", tile, scratch(math_.constant(place)), math_.constant(kSumPitch));
    }
  };
  emitIf(
      math_, math_.less(math_.constant(kLines), count_), [&] { sum(true); }, [&] { sum(false); });
}

void MatrixTile::emitTaps(Value start, int64_t columns, bool both) {
  Rows rows{source_.evenRow(batch_, first_, slot_), source_.pitch()};
  if (!source_.pads()) {
    if (!source_.copies())
      rows.first = math_.select(math_.less(count_, math_.constant(kRows)),
                                scratch(math_.constant(kRowsAt)), rows.first);
    return emitDepth(start, math_.constant(0), rows, columns, both);
  }
  SmallVector<Value> tap;
  std::function<void(Value)> nest = [&](Value place) {
    if (tap.size() == source_.taps().size())
      return emitDepth(start, math_.mul(place, source_.depth()),
                       {bytesFrom(rows.first, source_.tapBytes(tap)), rows.pitch}, columns, both);
    int64_t extent = source_.taps()[tap.size()];
    emitFor(math_, math_.constant(0), math_.constant(extent), math_.constant(1), [&](Value index) {
      tap.push_back(index);
      nest(math_.add(math_.mul(place, extent), index));
      tap.pop_back();
    });
  };
  nest(math_.constant(0));
}

void MatrixTile::prefetch(Value start, Value done) {
  constexpr int kSecondLevel = 2, kData = 1; // operands
  Value total = source_.totalDepth();
  Value next = elementPointer(math_, getElementTypeOrSelf(contraction_.panels.getType()),
                              emitter_.buffer(contraction_.panels),
                              math_.add(start, math_.mul(total, contraction_.width)));
  Value before = math_.add(math_.mul(tile_, total), done);
  Value place = math_.mul(before, fetchedLines_ * elementBytes());
  for (int64_t line = 0; line < fetchedLines_; ++line)
    emitter_.builder().create<LLVM::Prefetch>(math_.location,
                                              bytesFrom(next, math_.add(place, line * kLineBytes)),
                                              /*rw=*/0, kSecondLevel, kData);
}

void MatrixTile::emitDepth(Value start, Value before, const Rows &rows, int64_t columns,
                           bool both) {
  StringRef multiply = isa<FloatType>(contraction_.accumulator) ? "tdpbf16ps" : "tdpbusd";
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  Value panels = emitter_.buffer(contraction_.panels);
  Value linePitch = math_.constant(contraction_.width * contraction_.step * elementBytes());
  Value second = bytesFrom(rows.first, math_.mul(rows.pitch, kLines));
  Value products = math_.constant(productsOfTile(contraction_.step));
  emitFor(math_, math_.constant(0), source_.depth(), products, [&](Value k) {
    Value done = math_.add(before, k), bytes = math_.mul(k, elementBytes());
    if (fetchedLines_)
      prefetch(start, done);
    Value line =
        elementPointer(math_, right, panels, math_.add(start, math_.mul(done, contraction_.width)));
    for (int64_t column = 0; column < columns / kLines; ++column)
      call("tileloadd64", kRight + column, bytesFrom(line, math_.constant(column * kLineBytes)),
           linePitch);
    for (int64_t row = 0; row < 1 + both; ++row) {
      call("tileloadd64", kLeft + row, bytesFrom(row ? second : rows.first, bytes), rows.pitch);
      for (int64_t column = 0; column < columns / kLines; ++column)
        call(multiply, {kSums + row * 2 + column, kLeft + row, kRight + column});
    }
  });
}

} // namespace tensmith::kernel
