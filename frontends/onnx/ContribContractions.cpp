// Products with transpositions, activations and low-precision weights; see Contrib.h.
#include "base/AffineBlocks.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/RangeCodes.h"
#include "frontends/onnx/Contrib.h"
#include "frontends/onnx/IntegerProducts.h"

#include <numeric>

namespace tensmith::onnx_import {
namespace {

/// Dimensions 1 to the one before the last moved down by one and the first behind them (`batch`),
/// then the last two swapped.
Value turned(NodeImport &n, Value x, bool batch, bool swap) {
  int64_t rank = n.rank(x);
  Ints order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (batch && rank > 2)
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (swap && rank >= 2)
    std::swap(order[size_t(rank) - 2], order[size_t(rank) - 1]);
  return llvm::is_sorted(order) ? x : n.transpose(x, order);
}

Value scaled(NodeImport &n, Value x, double factor) { return factor == 1 ? x : n.mul(x, factor); }

SmallVector<double> activationParameters(NodeImport &n) {
  SmallVector<double> parameters;
  for (const char *name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.hasAttribute(name))
      parameters.push_back(n.floatAttr(name));
  return parameters;
}

LogicalResult fusedMatMul(NodeImport &n) {
  if (failed(needOperands(n, 2, 2)))
    return failure();
  Value a = turned(n, n.input(0), n.intAttr("transBatchA"), n.intAttr("transA"));
  Value b = turned(n, n.input(1), n.intAttr("transBatchB"), n.intAttr("transB"));
  Value product = scaled(n, a && b ? n.matmul(a, b) : Value(), n.floatAttr("alpha", 1));
  return n.give({activated(n, product, activationParameters(n))});
}

LogicalResult fusedGemm(NodeImport &n) {
  if (failed(importAs(n, "Gemm")))
    return failure();
  return n.give({activated(n, n.results[0], activationParameters(n))});
}

/// Conv(x, w, bias) + z, activated.
LogicalResult fusedConv(NodeImport &n) {
  if (failed(needOperands(n, 2)) || failed(importAs(n, "Conv")))
    return failure();
  Value y = n.has(3) ? n.add(n.results[0], n.input(3)) : n.results[0];
  return n.give({activated(n, y, n.floatsAttr("activation_params"))});
}

// ---- Weights in blocks of few bits
//
// Constants become blocks of a format, which are multiplied as they are. Weights that the run gives
// are expanded.

/// Bytes [..., m] as the codes packed in them, lowest bits first: [..., m * 8 / bits], still u8.
Value unpacked(NodeImport &n, Value bytes, int64_t bits) {
  if (!bytes || bits == 8)
    return bytes;
  auto dims = n.dims(bytes), each = dims;
  each.push_back(n.size(1));
  Value column = n.reshape(bytes, each);
  SmallVector<Value> parts;
  for (int64_t at = 0; column && at < 8; at += bits) {
    Value shifted =
        at ? n("graph.bit_shift", {column, n.scalar(column, double(at))}, n.boolean("left", false))
           : column;
    if (!shifted)
      return {};
    parts.push_back(n("graph.bitwise_and", {shifted, n.scalar(column, double((1 << bits) - 1))}));
  }
  dims.back() = n.graph.shapes.simplify(dims.back() * (8 / bits));
  return n.reshape(n.concat(parts, int64_t(dims.size())), dims);
}

/// The first `count` of the last dimension.
Value cutTo(NodeImport &n, Value x, int64_t count) {
  if (!x || NodeImport::known(n.dims(x).back()) == count)
    return x;
  auto dims = n.dims(x);
  dims.back() = n.size(count);
  return n.slice(x, Ints(dims.size(), 0), dims);
}

struct Blocks {
  int64_t rows, columns, size, bits; // N, K, block_size
  int64_t count() const { return (columns + size - 1) / size; }
};

/// The zero points as numbers of `type`, [rows, blocks, 1]; packed where they are bytes.
Value zeroPoints(NodeImport &n, Value given, const Blocks &b, Type type) {
  if (!given)
    return n.graph.scalar(type, double(int64_t(1) << (b.bits - 1)));
  if (n.element(given).isUnsignedInteger(8)) {
    int64_t bytes = (b.count() * b.bits + 7) / 8;
    given =
        cutTo(n, unpacked(n, n.reshape(given, {n.size(b.rows), n.size(bytes)}), b.bits), b.count());
  }
  return n.cast(n.reshape(given, {n.size(b.rows), n.size(b.count()), n.size(1)}), type);
}

/// (code - zero point) * scale, as [rows, columns] of the scales' type.
Value dequantizedBlocks(NodeImport &n, Value codes, Value scales, Value zeros, const Blocks &b) {
  AffineExpr rows = n.size(b.rows), blocks = n.size(b.count());
  Value bytes = n.reshape(codes, {rows, blocks, n.size(b.size * b.bits / 8)});
  scales = n.reshape(scales, {rows, blocks, n.size(1)});
  if (!bytes || !scales)
    return {};
  Type wide = n.element(n.widen(scales));
  Value numbers = n.cast(unpacked(n, bytes, b.bits), wide);
  Value weights = n.mul(n.sub(numbers, zeroPoints(n, zeros, b, wide)), n.cast(scales, wide));
  weights = n.reshape(weights, {rows, n.size(b.count() * b.size)});
  return n.cast(cutTo(n, weights, b.columns), n.element(scales));
}

/// Of operands that are constants; without a format where one is none, or the size of blocks is no
/// format's. `order`: of columns.
AffineBlocks constantBlocks(NodeImport &n, const Blocks &b, ArrayRef<int64_t> order) {
  auto codes = graph::constantTensor(n.input(1)), scales = graph::constantTensor(n.input(2)),
       zeros = n.has(3) ? graph::constantTensor(n.input(3)) : std::nullopt;
  if (!codes || !scales || (n.has(3) && !zeros))
    return {};
  std::span<const std::byte> stream(codes->data(), size_t(codes->bytes()));
  int64_t blockBytes = b.size * b.bits / 8, zeroBytes = (b.count() * b.bits + 7) / 8;
  AffineWeights weights{b.rows, b.columns, b.size, int(b.bits)};
  if (scales->type() == DataType::F16)
    weights.scaleType = DataType::F16;
  weights.code = [&](int64_t row, int64_t column) {
    int64_t block = row * b.count() + column / b.size;
    return codeOfStream(stream.subspan(size_t(block * blockBytes), size_t(blockBytes)),
                        column % b.size, int(b.bits));
  };
  weights.scale = [&](int64_t row, int64_t block) {
    return float(scales->getDouble(row * b.count() + block));
  };
  weights.zero = [&](int64_t row, int64_t block) {
    if (!zeros)
      return float(int64_t(1) << (b.bits - 1));
    if (zeros->type() != DataType::U8)
      return float(zeros->getDouble(row * b.count() + block));
    std::span<const std::byte> all(zeros->data(), size_t(zeros->bytes()));
    return float(
        codeOfStream(all.subspan(size_t(row * zeroBytes), size_t(zeroBytes)), block, int(b.bits)));
  };
  return affineBlocks(weights, order);
}

/// x times the blocks, in x's type: its columns in their order, with zeros behind them.
Value timesBlocks(NodeImport &n, const Blocks &b, const AffineBlocks &blocks,
                  ArrayRef<int64_t> order) {
  Type type = n.element(n.input(0));
  Value x = n.cast(n.input(0), n.builder.getF32Type());
  auto rank = size_t(n.rank(x));
  if (!order.empty())
    x = n("graph.gather", {x, n.vector(order)}, n.integer("axis", int64_t(rank) - 1));
  if (blocks.columns > b.columns) {
    Ints low(rank, 0), high(rank, 0);
    high.back() = blocks.columns - b.columns;
    x = n("graph.pad", {x, n.scalar(x, 0)}, {n.integers("low", low), n.integers("high", high)});
  }
  HostTensor bytes(DataType::U8, {b.rows, blocks.rowBytes});
  std::memcpy(bytes.mutableData(), blocks.bytes.data(), blocks.bytes.size());
  constexpr int64_t kBytes = 4; // the accuracy that lets x be rounded to 8 bits
  int64_t xBits = n.intAttr("accuracy_level") == kBytes ? 8 : 0;
  Value y = n("graph.block_product", {x, n.constant(bytes)},
              {n.text("format", blocks.format->name), n.integer("x_bits", xBits)});
  return n.cast(y, type);
}

/// The order of columns that group numbers ask for; an error where groups are of other sizes.
FailureOr<std::vector<int64_t>> orderOfColumns(NodeImport &n, const Blocks &b) {
  if (!n.has(4))
    return std::vector<int64_t>();
  auto groups = n.constants(n.input(4));
  if (!groups || int64_t(groups->size()) < b.columns)
    return n.error("the group numbers are no constants, one for each of the K columns");
  auto order = orderOfGroups(ArrayRef(*groups).take_front(size_t(b.columns)), b.size);
  if (!order)
    return n.error("the group numbers don't make groups of block_size columns each");
  return *order;
}

bool isElementCount(NodeImport &n, Value x, int64_t count) {
  return n.isRanked(x) && NodeImport::known(n.graph.shapes.product(n.dims(x))) == count;
}

/// Operands: a, packed weights, scales, zero points, group numbers, bias.
LogicalResult matMulNBits(NodeImport &n) {
  if (failed(needOperands(n, 3, 3)))
    return failure();
  Blocks b{n.intAttr("N"), n.intAttr("K"), n.intAttr("block_size"), n.intAttr("bits", 4)};
  constexpr int64_t kMost = int64_t(1) << 31;
  bool isRegular = llvm::is_contained(kAffineBits, b.bits) && b.rows > 0 && b.columns > 0 &&
                   b.rows < kMost && b.columns < kMost && b.size >= 8 && b.size <= kMost &&
                   b.size % 8 == 0;
  if (!isRegular)
    return n.error("N, K, block_size or bits is not supported");
  int64_t bytes = b.rows * b.count() * (b.size * b.bits / 8);
  if (!isElementCount(n, n.input(1), bytes) || !n.element(n.input(1)).isUnsignedInteger(8) ||
      !isElementCount(n, n.input(2), b.rows * b.count()))
    return n.error("the weights or scales are not of the shape that N, K, block_size and bits say");
  if (n.intAttr("weight_prepacked"))
    return n.error("prepacked weights are not supported");
  if (n.has(3)) {
    bool packed = n.element(n.input(3)).isUnsignedInteger(8);
    int64_t count = packed ? b.rows * ((b.count() * b.bits + 7) / 8) : b.rows * b.count();
    if (!isElementCount(n, n.input(3), count))
      return n.error("the zero points are not of the shape that N, K, block_size and bits say");
  }
  auto order = orderOfColumns(n, b);
  if (failed(order))
    return failure();
  Value y;
  if (AffineBlocks blocks = constantBlocks(n, b, *order); blocks.format) {
    y = timesBlocks(n, b, blocks, *order);
  } else if (b.bits == 3 || !order->empty()) {
    return n.error("weights of 3 bits, and those with group numbers, have to be constants in "
                   "blocks of a multiple of 16");
  } else {
    Value weights = dequantizedBlocks(n, n.input(1), n.input(2), n.input(3), b);
    y = weights ? n.matmul(n.input(0), n.transpose(weights, {1, 0})) : weights;
  }
  return n.give({n.has(5) ? n.add(y, n.input(5)) : y});
}

// ---- Products of codes

/// scale * sum((a - za) (b - zb)) + bias in f32.
Value floatOfCodes(NodeImport &n, Value a, Value za, Value b, Value zb, Value scale, Value bias) {
  Value product = n.matmul(shifted(n, a, za), shifted(n, b, zb));
  Value y = n.mul(n.cast(product, n.builder.getF32Type()), scale);
  return bias ? n.add(y, bias) : y;
}

/// Operands: a, b, their scales, their zero points, bias.
LogicalResult matMulIntegerToFloat(NodeImport &n) {
  if (failed(needOperands(n, 4)))
    return failure();
  return n.give({floatOfCodes(n, n.input(0), n.input(4), n.input(1), n.input(5),
                              n.mul(n.input(2), n.input(3)), n.input(6))});
}

/// Operands: a in f32, b in codes, b's scale and zero point, bias.
LogicalResult dynamicQuantizeMatMul(NodeImport &n) {
  if (failed(needOperands(n, 3, 1)))
    return failure();
  graph::RangeCodes a = graph::codesByRange(n, n.input(0));
  if (!a.values)
    return failure();
  return n.give({floatOfCodes(n, a.values, a.zeroPoint, n.input(1), n.input(3),
                              n.mul(a.scale, n.input(2)), n.input(4))});
}

LogicalResult matMulInteger16(NodeImport &n) {
  if (failed(needOperands(n, 2)))
    return failure();
  return n.give({n.matmul(shifted(n, n.input(0), {}), shifted(n, n.input(1), {}))});
}

constexpr Operator kOperators[] = {
    {"FusedMatMul", fusedMatMul, kContrib},
    {"TransposeMatMul", fusedMatMul, kContrib},
    {"FusedMatMulActivation", fusedMatMul, kContrib},
    {"FusedGemm", fusedGemm, kContrib},
    {"FusedConv", fusedConv, kContrib},
    {"MatMulNBits", matMulNBits, kContrib},
    {"MatMulIntegerToFloat", matMulIntegerToFloat, kContrib},
    {"DynamicQuantizeMatMul", dynamicQuantizeMatMul, kContrib},
    {"MatMulInteger16", matMulInteger16, kContrib},
};

} // namespace

std::span<const Operator> contribContractionOperators() { return kOperators; }

} // namespace tensmith::onnx_import
