// x86's instructions that add up products, and Intel's matrix unit; see Intrinsics.h.
//
// "Intel 64 and IA-32 Architectures Software Developer's Manual", volumes 1 (AMX) and 2.
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"

#include "compiler/kernel/Machine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <array>

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

using kernel::Number;

void emitCall(OpBuilder &builder, Location location, llvm::StringRef name, ValueRange operands) {
  builder.create<LLVM::CallIntrinsicOp>(location, TypeRange(), builder.getStringAttr(name),
                                        operands);
}

Value as(OpBuilder &builder, Location location, Value value, Type type) {
  return builder.createOrFold<LLVM::BitcastOp>(location, type, value);
}

int64_t bitsOf(Value vector) {
  auto type = cast<VectorType>(vector.getType());
  return type.getNumElements() * type.getElementTypeBitWidth();
}

Value emitVpdpbusd(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  Type type = sum.getType();
  return emitIntrinsic(
      builder, location, "llvm.x86.avx512.vpdpbusd." + std::to_string(bitsOf(sum)), type,
      {sum, as(builder, location, left, type), as(builder, location, right, type)});
}

Value emitVdpbf16ps(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  Type pairs = VectorType::get({bitsOf(sum) / 16}, builder.getBF16Type());
  return emitIntrinsic(
      builder, location, "llvm.x86.avx512bf16.dpbf16ps." + std::to_string(bitsOf(sum)),
      sum.getType(),
      {sum, as(builder, location, left, pairs), as(builder, location, right, pairs)});
}

/// Integer sums of several steps LLVM would put in another order, which takes more registers than
/// there are.
Value emitPmaddwd(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  bool wide = bitsOf(sum) == 512;
  Type pairs = VectorType::get({bitsOf(sum) / 16}, builder.getI16Type());
  Value products = emitIntrinsic(
      builder, location, wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd",
      sum.getType(), {as(builder, location, left, pairs), as(builder, location, right, pairs)});
  Value result = builder.create<arith::AddIOp>(location, sum, products);
  hold(builder, location, result, "v");
  return result;
}

Value emitPopulation(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  Type words = sum.getType();
  Value both = builder.createOrFold<arith::AndIOp>(location, as(builder, location, left, words),
                                                   as(builder, location, right, words));
  Value counts = builder.create<LLVM::CtPopOp>(location, words, both);
  return builder.create<arith::AddIOp>(location, sum, counts);
}

Value splatOf(OpBuilder &builder, Location location, VectorType type, uint64_t value) {
  APInt number(type.getElementTypeBitWidth(), value);
  return builder.create<arith::ConstantOp>(location, DenseElementsAttr::get(type, number));
}

/// The counts of half bytes come out of a table (Mula, Kurz, Lemire, "Faster Population Counts
/// Using AVX2 Instructions", 2018).
Value emitLookups(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  auto bytes = cast<VectorType>(sum.getType());
  int64_t lanes = bytes.getNumElements();
  auto halves = VectorType::get({lanes / 2}, builder.getI16Type());
  Value both = builder.createOrFold<arith::AndIOp>(location, as(builder, location, left, bytes),
                                                   as(builder, location, right, bytes));
  SmallVector<int8_t> counts;
  for (int64_t lane = 0; lane < lanes; ++lane)
    counts.push_back(int8_t(llvm::popcount(unsigned(lane % 16))));
  Value table = builder.create<arith::ConstantOp>(
      location, DenseElementsAttr::get(bytes, ArrayRef<int8_t>(counts)));
  Value mask = splatOf(builder, location, bytes, 15);
  Value shifted = builder.create<arith::ShRUIOp>(location, as(builder, location, both, halves),
                                                 splatOf(builder, location, halves, 4));
  Value low = builder.create<arith::AndIOp>(location, both, mask);
  Value high = builder.create<arith::AndIOp>(location, as(builder, location, shifted, bytes), mask);
  llvm::StringRef name = lanes == 64   ? "llvm.x86.avx512.pshuf.b.512"
                         : lanes == 32 ? "llvm.x86.avx2.pshuf.b"
                                       : "llvm.x86.ssse3.pshuf.b.128";
  for (Value nibbles : {low, high})
    sum = builder.create<arith::AddIOp>(
        location, sum, emitIntrinsic(builder, location, name, bytes, {table, nibbles}));
  return sum;
}

Value emitSumsOfBytes(OpBuilder &builder, Location location, Value sums) {
  auto bytes = cast<VectorType>(sums.getType());
  int64_t lanes = bytes.getNumElements();
  llvm::StringRef name = lanes == 64   ? "llvm.x86.avx512.psad.bw.512"
                         : lanes == 32 ? "llvm.x86.avx2.psad.bw"
                                       : "llvm.x86.sse2.psad.bw";
  return emitIntrinsic(builder, location, name, VectorType::get({lanes / 8}, builder.getI64Type()),
                       {sums, splatOf(builder, location, bytes, 0)});
}

template <const char *name>
Value emitTileProduct(OpBuilder &builder, Location location, Value left, Value right, Value sum) {
  emitCall(builder, location, name, {sum, left, right});
  return {};
}
constexpr char kTileBytes[] = "llvm.x86.tdpbusd", kTileHalves[] = "llvm.x86.tdpbf16ps";

Value tileNumber(OpBuilder &builder, Location location, int64_t tile) {
  return builder.create<LLVM::ConstantOp>(location, builder.getI8Type(),
                                          builder.getI8IntegerAttr(int8_t(tile)));
}

Value asI64(OpBuilder &builder, Location location, Value index) {
  return builder.create<arith::IndexCastOp>(location, builder.getI64Type(), index);
}

constexpr kernel::MatrixUnit kMatrixUnit = {
    .begin =
        [](OpBuilder &builder, Location location, Value scratch, int64_t tiles) {
          // The operand of ldtilecfg: palette 1; from byte 16 on bytes of a line, from 48 on lines.
          std::array<int8_t, 64> bytes = {1};
          for (int64_t tile = 0; tile < tiles; ++tile) {
            bytes[size_t(16 + 2 * tile)] = kernel::MatrixUnit::kLineBytes;
            bytes[size_t(48 + tile)] = kernel::MatrixUnit::kLines;
          }
          auto type = VectorType::get({int64_t(bytes.size())}, builder.getI8Type());
          Value configuration = builder.create<arith::ConstantOp>(
              location, DenseElementsAttr::get(type, ArrayRef<int8_t>(bytes)));
          builder.create<LLVM::StoreOp>(location, configuration, scratch, /*alignment=*/1);
          emitCall(builder, location, "llvm.x86.ldtilecfg", scratch);
        },
    .end = [](OpBuilder &builder,
              Location location) { emitCall(builder, location, "llvm.x86.tilerelease", {}); },
    .zero =
        [](OpBuilder &builder, Location location, int64_t tile) {
          emitCall(builder, location, "llvm.x86.tilezero", tileNumber(builder, location, tile));
        },
    .load =
        [](OpBuilder &builder, Location location, int64_t tile, Value pointer, Value pitch) {
          Value number = tileNumber(builder, location, tile);
          emitCall(builder, location, "llvm.x86.tileloadd64",
                   {number, pointer, asI64(builder, location, pitch)});
        },
    .store =
        [](OpBuilder &builder, Location location, int64_t tile, Value pointer, Value pitch) {
          Value number = tileNumber(builder, location, tile);
          emitCall(builder, location, "llvm.x86.tilestored64",
                   {number, pointer, asI64(builder, location, pitch)});
        }};

} // namespace

llvm::ArrayRef<kernel::Intrinsic> x86Intrinsics() {
  // Of the matrix unit's sixteen what caches let it have.
  constexpr double kTileRate = 6;
  static constexpr kernel::Intrinsic kAll[] = {
      {"vpdpbusd", "avx512bw,avx512vnni", Number::U8, Number::I8, Number::I32, 1, 16, 4, 4,
       kernel::AddsToSum, emitVpdpbusd},
      {"vpdpbusd", "avx2,avx512vnni,avx512vl", Number::U8, Number::I8, Number::I32, 1, 8, 4, 4,
       kernel::AddsToSum, emitVpdpbusd},
      {"vpdpbusd", "avx2,avxvnni", Number::U8, Number::I8, Number::I32, 1, 8, 4, 4,
       kernel::AddsToSum, emitVpdpbusd},
      {"vpmaddwd", "avx512bw", Number::I16, Number::I16, Number::I32, 1, 16, 2, 2, 0, emitPmaddwd},
      {"vpmaddwd", "avx2", Number::I16, Number::I16, Number::I32, 1, 8, 2, 2, 0, emitPmaddwd},
      {"vdpbf16ps", "avx512bw,avx512bf16", Number::BF16, Number::BF16, Number::F32, 1, 16, 2, 2,
       kernel::AddsToSum | kernel::FlushesSubnormals, emitVdpbf16ps},
      {"vdpbf16ps", "avx2,avx512bf16,avx512vl", Number::BF16, Number::BF16, Number::F32, 1, 8, 2, 2,
       kernel::AddsToSum | kernel::FlushesSubnormals, emitVdpbf16ps},
      {"vpopcntq", "avx512vpopcntdq", Number::U1, Number::U1, Number::I64, 1, 8, 64, 10, 0,
       emitPopulation},
      {"vpshufb", "avx512bw", Number::U1, Number::U1, Number::U8, 1, 64, 8, 4, 0, emitLookups,
       emitSumsOfBytes},
      {"vpshufb", "avx2", Number::U1, Number::U1, Number::U8, 1, 32, 8, 6, 0, emitLookups,
       emitSumsOfBytes},
      {"pshufb", "ssse3", Number::U1, Number::U1, Number::U8, 1, 16, 8, 6, 0, emitLookups,
       emitSumsOfBytes},
      {"tdpbusd", "amx-tile,amx-int8,avx512bw,avx512vnni", Number::U8, Number::I8, Number::I32, 16,
       16, 64, kTileRate, kernel::AddsToSum | kernel::OfTiles, emitTileProduct<kTileBytes>},
      {"tdpbf16ps", "amx-tile,amx-bf16,avx512bw,avx512bf16", Number::BF16, Number::BF16,
       Number::F32, 16, 16, 32, kTileRate,
       kernel::AddsToSum | kernel::FlushesSubnormals | kernel::OfTiles,
       emitTileProduct<kTileHalves>}};
  return kAll;
}

const kernel::MatrixUnit *matrixUnitOf(const Cpu &machine) {
  return machine.has("amx-tile") ? &kMatrixUnit : nullptr;
}

static Value emitLookup(OpBuilder &builder, Location location, llvm::ArrayRef<Value> table,
                        Value places) {
  auto type = cast<VectorType>(places.getType());
  bool isByte = type.getElementTypeBitWidth() == 8;
  if (table.size() == 1)
    return emitIntrinsic(builder, location,
                         isByte ? "llvm.x86.avx512.permvar.qi.512"
                                : "llvm.x86.avx512.permvar.hi.512",
                         type, {table[0], places});
  if (table.size() == 2)
    return emitIntrinsic(builder, location,
                         isByte ? "llvm.x86.avx512.vpermi2var.qi.512"
                                : "llvm.x86.avx512.vpermi2var.hi.512",
                         type, {table[0], places, table[1]});
  // The lowest bit that tells the halves apart.
  size_t half = table.size() / 2;
  Value low = emitLookup(builder, location, table.take_front(half), places);
  Value high = emitLookup(builder, location, table.drop_front(half), places);
  Value bit = splatOf(builder, location, type, half * size_t(type.getNumElements()));
  Value isHigh = builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::ne,
                                               builder.create<arith::AndIOp>(location, places, bit),
                                               splatOf(builder, location, type, 0));
  return builder.create<arith::SelectOp>(location, isHigh, high, low);
}

/// Vectors of 512 bits with masks are those of AVX-512 with BW and VL (Cpu.cpp).
kernel::Lookup lookupOf(const Cpu &machine) {
  if (machine.vectorBits != 512 || !machine.has("avx512vl"))
    return {};
  return {machine.has("avx512vbmi") ? 8 : 16, emitLookup};
}

} // namespace tensmith::targets::cpu
