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
// Scratch: the configuration, sums, pointers to rows, rows.
constexpr int64_t kConfiguration = 0, kSumsAt = 64,
                  kPointersAt = kSumsAt + MatrixTile::kRows * kSumPitch,
                  kRowsAt = kPointersAt + MatrixTile::kRows * int64_t(sizeof(void *));

} // namespace

int64_t MatrixTile::elementBytes() const {
  return storageType(getElementTypeOrSelf(contraction_.left.getType())).getIntOrFloatBitWidth() / 8;
}

/// Rows apart by more than a power of two, or they would fall into the same cache sets.
Value MatrixTile::gatheredPitch() {
  return math_.add(math_.mul(source_.depth(), elementBytes()), kLineBytes);
}

Value MatrixTile::scratchBytes() {
  return math_.add(math_.mul(gatheredPitch(), kRows), kRowsAt);
}

Value MatrixTile::scratch(Value bytes) {
  return elementPointer(math_, emitter_.builder().getI8Type(), scratch_, bytes);
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
  builder.create<LLVM::CallIntrinsicOp>(
      math_.location, TypeRange(), builder.getStringAttr("llvm.x86." + instruction.str()), operands);
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

void MatrixTile::beginRows(Value batch, Value first, Value count, Value slot) {
  batch_ = batch;
  first_ = first;
  count_ = count;
  slot_ = slot;
}

void MatrixTile::beginPrefetch(Value tile, Value most) {
  constexpr int64_t kTilesOfUnknown = 4;
  tile_ = tile;
  auto panels = cast<RankedTensorType>(contraction_.panels.getType());
  // What the second level holds from run to run needs none.
  bool isNear = panels.hasStaticShape() && panels.getNumElements() * elementBytes() <= l2Bytes_ / 2;
  int64_t tiles = std::max<int64_t>(constantIndex(most).value_or(kTilesOfUnknown), 1);
  int64_t lines = contraction_.width / kLines * kLines; // of a step's tiles of B
  fetchedLines_ = isNear ? 0 : llvm::divideCeil(lines, tiles);
}

Value MatrixTile::sums(Value row, int64_t column) {
  auto type = VectorType::get({kLines}, contraction_.accumulator);
  Value place = math_.add(math_.mul(row, kSumPitch), kSumsAt + column * kSumBytes);
  return emitter_.builder().create<LLVM::LoadOp>(math_.location, type, scratch(place),
                                                 /*alignment=*/4);
}

void MatrixTile::emitSums(Value panel, Value start, int64_t columns) {
  auto sum = [&](std::optional<Rows> rows, bool both) {
    SmallVector<int64_t> tiles;
    for (int64_t row = 0; row < 1 + both; ++row)
      for (int64_t column = 0; column < columns; column += kLines)
        tiles.push_back(kSums + row * 2 + column / kLines);
    for (int64_t tile : tiles)
      call("tilezero", tile);
    emitTaps(start, rows, columns, both);
    for (int64_t tile : tiles) {
      int64_t place = kSumsAt + tile / 2 * kLines * kSumPitch + tile % 2 * kLineBytes;
      call("tilestored64", tile, scratch(math_.constant(place)), math_.constant(kSumPitch));
    }
  };
  auto gathered = [&] {
    emitIf(
        math_, math_.less(math_.constant(kLines), count_), [&] { sum(std::nullopt, true); },
        [&] { sum(std::nullopt, false); });
  };
  Value pitch = source_.pitch();
  if (!pitch)
    return gathered();
  auto inPlace = [&] {
    source_.beginTile(batch_, first_, slot_);
    sum(Rows{source_.rowPointers({})[0], pitch}, true);
  };
  if (source_.copies()) // there is room for all of a tile's
    return inPlace();
  emitIf(math_, math_.less(count_, math_.constant(kRows)), gathered, inPlace);
}

void MatrixTile::emitTaps(Value start, std::optional<Rows> rows, int64_t columns, bool both) {
  if (rows)
    return emitDepth(start, math_.constant(0), *rows, columns, both);
  // Of rows that there aren't, the last; they are not read.
  SmallVector<Value> numbers;
  Value last = math_.sub(math_.add(first_, count_), math_.constant(1));
  for (int64_t row = 0; row < (both ? kRows : kLines); ++row)
    numbers.push_back(math_.min(math_.add(first_, row), last));
  source_.beginTile(batch_, numbers, slot_);
  SmallVector<Value> tap;
  std::function<void(Value)> nest = [&](Value place) {
    if (tap.size() == source_.taps().size()) {
      Value before = math_.mul(place, source_.depth());
      return emitDepth(math_.add(start, math_.mul(before, contraction_.width)), before, gather(tap),
                       columns, both);
    }
    int64_t extent = source_.taps()[tap.size()];
    emitFor(math_, math_.constant(0), math_.constant(extent), math_.constant(1), [&](Value index) {
      tap.push_back(index);
      nest(math_.add(math_.mul(place, extent), index));
      tap.pop_back();
    });
  };
  nest(math_.constant(0));
}

MatrixTile::Rows MatrixTile::gather(ValueRange tap) {
  auto &builder = emitter_.builder();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Value rows = scratch(math_.constant(kRowsAt));
  auto slot = [&](Value row) {
    return scratch(math_.add(math_.mul(row, int64_t(sizeof(void *))), kPointersAt));
  };
  for (auto [row, value] : llvm::enumerate(source_.rowPointers(tap)))
    builder.create<LLVM::StoreOp>(math_.location, value, slot(math_.constant(int64_t(row))));
  Value pitch = gatheredPitch();
  auto type = VectorType::get({kLineBytes}, builder.getI8Type());
  auto at = [&](Value base, Value bytes) {
    return elementPointer(math_, builder.getI8Type(), base, bytes);
  };
  emitFor(math_, math_.constant(0), count_, math_.constant(1), [&](Value row) {
    Value from = builder.create<LLVM::LoadOp>(math_.location, pointer, slot(row));
    Value to = at(rows, math_.mul(row, pitch));
    Value bytes = math_.mul(source_.depth(), elementBytes());
    emitFor(math_, math_.constant(0), bytes, math_.constant(kLineBytes), [&](Value byte) {
      Value line = builder.create<LLVM::LoadOp>(math_.location, type, at(from, byte), 1);
      builder.create<LLVM::StoreOp>(math_.location, line, at(to, byte), 1);
    });
  });
  return {rows, pitch};
}

/// Lines of the next panel: each step of each tile goes on by as many.
void MatrixTile::prefetch(Value start, Value before) {
  constexpr int kSecondLevel = 2, kData = 1; // operands
  Value total = source_.totalDepth();
  Value next = elementPointer(
      math_, getElementTypeOrSelf(contraction_.panels.getType()),
      emitter_.buffer(contraction_.panels),
      math_.add(start, math_.mul(math_.sub(total, before), contraction_.width)));
  Value done = math_.add(math_.mul(tile_, total), before);
  Value place = math_.mul(done, fetchedLines_ * elementBytes());
  for (int64_t line = 0; line < fetchedLines_; ++line)
    emitter_.builder().create<LLVM::Prefetch>(
        math_.location,
        elementPointer(math_, emitter_.builder().getI8Type(), next,
                       math_.add(place, line * kLineBytes)),
        /*rw=*/0, kSecondLevel, kData);
}

void MatrixTile::emitDepth(Value start, Value before, const Rows &rows, int64_t columns, bool both) {
  bool floats = isa<FloatType>(contraction_.accumulator);
  StringRef multiply = floats ? "tdpbf16ps" : "tdpbusd";
  Type right = getElementTypeOrSelf(contraction_.panels.getType());
  Value panels = emitter_.buffer(contraction_.panels);
  Value linePitch = math_.constant(contraction_.width * contraction_.step * elementBytes());
  auto bytesFrom = [&](Value pointer, Value bytes) {
    return elementPointer(math_, emitter_.builder().getI8Type(), pointer, bytes);
  };
  Value second = bytesFrom(rows.first, math_.mul(rows.pitch, kLines));
  int64_t products = kLineBytes / elementBytes();
  emitFor(math_, math_.constant(0), source_.depth(), math_.constant(products), [&](Value k) {
    Value bytes = math_.mul(k, elementBytes());
    if (fetchedLines_)
      prefetch(math_.add(start, math_.mul(k, contraction_.width)), math_.add(before, k));
    Value line = elementPointer(math_, right, panels,
                                math_.add(start, math_.mul(k, contraction_.width)));
    for (int64_t column = 0; column < columns / kLines; ++column)
      call("tileloadd64", kRight + column,
           bytesFrom(line, math_.constant(column * kLineBytes)), linePitch);
    for (int64_t row = 0; row < 1 + both; ++row) {
      call("tileloadd64", kLeft + row, bytesFrom(row ? second : rows.first, bytes), rows.pitch);
      for (int64_t column = 0; column < columns / kLines; ++column)
        call(multiply, {kSums + row * 2 + column, kLeft + row, kRight + column});
    }
  });
}

} // namespace tensmith::kernel
