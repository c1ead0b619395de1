// Products of dequantised codes become products of integers, scaled afterwards.
//
// before: conv(dequantize(x, sx, zx), dequantize(w, sw, zw), bias)
// after:  cast(conv(x - zx, w - zw), f32) * (sx * sw) + bias, the sums in i32, and exact
//
// and matrix products alike. Codes of 8 bits less their zero point are 16-bit numbers, of which a
// machine adds up products in pairs; the padding of an image is zero in them. Where it multiplies
// bytes, codes stay bytes, and what the zero points add is taken off the sums:
//
//   matmul(x - zx, w - zw) = matmul(x, w) - zw * sum(x) - zx * sum(w - zw)
//
// sum(x) is of each row, sum(w - zw) of each column, which is known where w is. A convolution does
// so for x if w has no zero point: sums of x would be those of each window.
//
// Some machines multiply unsigned bytes by signed ones, some only signed ones: codes of the other
// kind are moved by 128, and their zero point with them. w is signed, or moved so.
//
// A layer that errs by more than a code that way (RoundingError.h), and by less as it is, stays a
// product of floats, as does one that a schedule says so of.
//
// x has one scale and one zero point, w one or one for each output. The same algebra is behind
// QLinearConv and QLinearMatMul (Jacob et al., "Quantization and Training of Neural Networks for
// Efficient Integer-Arithmetic-Only Inference", 2018).
//
// Codes of one to four bits on both sides, the left one's by a clip before them, are multiplied bit
// by bit (graph.bit_conv) where the machine's rates say that this is faster.
//
// before: dequantize(quantize(y, s, z), t, z)
// after:  clamp(round(y / s), low - z, high - z) * t
//
// Codes that are made and taken apart again are never offset by their zero point, and are integers
// in memory where a product reads them only: elsewhere NaN, which has zero's code, stays NaN.
//
// before: matmul(cast(x, i32) - cast(zx, i32), cast(w, i32) - cast(zw, i32)), x and w of 8 bits
// after:  the same of i16, with sums in i32; of bytes as above, where zero points are single ones
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphCode.h"
#include "compiler/graph/Precision.h"
#include "compiler/kernel/BitProducts.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/BitCodes.h"
#include "compiler/rewrite/CodedOperands.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/rewrite/RoundingError.h"

#include <cmath>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using graph::GraphCode;
using kernel::Number;

/// Products of two numbers of nine bits and a sign that a sum in i32 holds, whatever they are.
constexpr int64_t kMostProducts = ((int64_t(1) << 31) - 1) / (255 * 255);

constexpr int64_t kCodeBits = 8, kFloatBits = 32; // that a schedule says operands have

/// From so many products of each of its elements on, the sums of an operand cost less than bytes
/// save: it is read once more for them, and added up in 32 bits, which takes as long as some eight
/// products of bytes.
constexpr int64_t kProductsOfSum = 8;

/// Codes as a product takes them: numbers of i16 relative to their zero point, or bytes, and the
/// zero point beside them (of i16, a scalar, or of the right operand one for each column; null
/// where it is zero).
struct Numbers {
  Value values;
  Value zero;
};

/// Of quantisations, those that products read, as bytes of either kind or numbers of i16: made
/// once of each.
using StoredNumbers = llvm::MapVector<std::pair<Operation *, Type>, Numbers>;

/// The quantisation whose codes the operator takes, if both have one scale, and the same zero
/// point.
graph::QuantizeOp quantizationBefore(graph::DequantizeOp op) {
  auto quantize = op.getX().getDefiningOp<graph::QuantizeOp>();
  bool sameZero = quantize && (quantize.getZeroPoint() == op.getZeroPoint() ||
                               (isZero(quantize.getZeroPoint()) && isZero(op.getZeroPoint())));
  bool fits = sameZero && isScalar(quantize.getScale()) && isScalar(op.getScale()) &&
              quantize.getBlockSize() == 0 &&
              (GraphCode::isAbsent(op.getZeroPoint()) || isScalar(op.getZeroPoint())) &&
              isa<RankedTensorType>(quantize.getX().getType()) &&
              getElementTypeOrSelf(quantize.getX().getType()).isF32() &&
              getElementTypeOrSelf(quantize.getScale().getType()).isF32();
  return fits ? quantize : graph::QuantizeOp();
}

/// Bytes that the machine multiplies by signed ones: of the own kind where it can, else of the
/// other; null: it has no instruction for any.
Type leftBytes(const kernel::Machine &machine, Type own) {
  bool ofUnsigned = machine.products(Number::U8, Number::I8, Number::I32);
  bool ofSigned = machine.products(Number::I8, Number::I8, Number::I32);
  if (own.isUnsignedInteger() ? ofUnsigned : ofSigned)
    return own;
  if (ofUnsigned)
    return IntegerType::get(own.getContext(), 8, IntegerType::Unsigned);
  return ofSigned ? IntegerType::get(own.getContext(), 8) : Type();
}

/// Whether numbers may be multiplied by the reciprocal of a scale: one that isn't known is of
/// numbers that are (DynamicQuantizeLinear).
bool hasReciprocal(Value scale) {
  auto known = graph::constantTensor(scale);
  return !known || std::isnormal(1 / float(known->getDouble(0)));
}

class Rewriter {
public:
  Rewriter(Operation *op, StoredNumbers &stored, const Options &options)
      : builder_(op), shapes_(op->getContext()), graph_(builder_, shapes_, op->getLoc()),
        code_(graph_), stored_(stored), options_(options), i8_(builder_.getI8Type()),
        i16_(builder_.getI16Type()), i32_(builder_.getI32Type()), f32_(builder_.getF32Type()) {}

  /// What the codes of a quantisation stand for.
  Value withoutCodes(graph::DequantizeOp op, graph::QuantizeOp quantize) {
    auto known =
        llvm::find_if(stored_, [&](const auto &stored) { return stored.first.first == quantize; });
    Value numbers;
    if (known == stored_.end())
      numbers = rounded(quantize);
    else
      numbers = less(code_.cast(known->second.values, f32_), known->second.zero);
    return code_.mul(numbers, code_.reshape(op.getScale(), {}));
  }

  /// A product of 32-bit integers that are differences of codes.
  Value ofDifferences(Operation *op) {
    if (Value sums = ofByteDifferences(op))
      return sums;
    Value left = narrow(op->getOperand(0)), right = narrow(op->getOperand(1));
    SmallVector<Value> operands{left, right};
    llvm::append_range(operands, op->getOperands().drop_front(2));
    return left && right ? product(op, operands) : Value();
  }

  /// The same of bytes, which take half as long as pairs; null where an operand has other codes.
  Value ofByteDifferences(Operation *op) {
    auto conv = dyn_cast<graph::ConvOp>(op);
    if (conv && (kernel::isDepthwise(conv) || !GraphCode::isAbsent(conv.getBias())))
      return {};
    auto isMatrix = [](Value operand) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      return type && type.getRank() >= 2;
    };
    if (!isMatrix(op->getOperand(0)) || !isMatrix(op->getOperand(1)))
      return {};
    auto left = byteDifference(op->getOperand(0), leftKind(op->getOperand(0)));
    auto right = left ? byteDifference(op->getOperand(1), i8_) : std::nullopt;
    bool isKnown = right && graph::constantTensor(codesBehind(op->getOperand(1)));
    return right && takesBytes(op, bool(left->zero), bool(right->zero), isKnown)
               ? ofBytes(op, *left, *right)
               : Value();
  }

  Value convolution(graph::ConvOp op) {
    auto w = dyn_cast<RankedTensorType>(op.getW().getType());
    bool fits = w && w.hasStaticShape() && !kernel::isDepthwise(op) && !op.getAccumulateI32() &&
                w.getNumElements() / std::max<int64_t>(w.getDimSize(0), 1) <= kMostProducts;
    auto xAxis = scaleAxis(op.getX()), wAxis = scaleAxis(op.getW());
    if (!fits || !xAxis || *xAxis >= 0 || !wAxis || *wAxis > 0 || staysFloat(op))
      return {};
    if (Value y = bitConvolution(op))
      return withBias(op, y);
    return withBias(op, scaled(sumsOfCodes(op), scaleOf(op.getX()), scaleOf(op.getW()),
                               /*axis=*/1));
  }

  Value matrixProduct(graph::MatMulOp op) {
    auto a = dyn_cast<RankedTensorType>(op.getA().getType()),
         b = dyn_cast<RankedTensorType>(op.getB().getType());
    auto result = dyn_cast<RankedTensorType>(op.getType());
    if (!a || !b || !result || a.getRank() < 2 || b.getRank() < 2 || op.getAccumulateI32())
      return {};
    int64_t depth = a.getShape().back();
    if (ShapedType::isDynamic(depth) || depth > kMostProducts)
      return {};
    auto aAxis = scaleAxis(op.getA()), bAxis = scaleAxis(op.getB());
    if (!aAxis || *aAxis >= 0 || !bAxis || (*bAxis >= 0 && *bAxis != b.getRank() - 1) ||
        staysFloat(op))
      return {};
    if (Value y = bitProduct(op))
      return y;
    return scaled(sumsOfCodes(op), scaleOf(op.getA()), scaleOf(op.getB()), result.getRank() - 1);
  }

private:
  Value withBias(graph::ConvOp op, Value y) {
    if (!y || GraphCode::isAbsent(op.getBias()))
      return y;
    return code_.add(y, code_.alongDimension(op.getBias(), 1, GraphCode::rank(y)));
  }

  /// Both sides of a product bit by bit; nothing where it is not one, or not faster.
  struct BitOperands {
    graph::QuantizeOp quantize;
    graph::DequantizeOp left, right;
    BitCodes ofLeft, ofRight;
  };
  std::optional<BitOperands> bitOperands(Operation *op, int64_t channels) {
    constexpr int64_t kMostBits = 4;
    BitOperands both;
    both.left = dequantizationOf(op->getOperand(0));
    both.right = dequantizationOf(op->getOperand(1));
    // Not through a transposition.
    if (!both.left || !both.right || op->getOperand(0) != both.left.getY() ||
        op->getOperand(1) != both.right.getY())
      return std::nullopt;
    both.quantize = quantizationBefore(both.left);
    auto left =
        both.quantize ? bitsOfQuantised(both.quantize, kMostBits) : std::optional<BitCodes>();
    auto right = left ? bitsOfConstant(both.right, kMostBits) : std::optional<BitCodes>();
    if (!right || !kernel::bitsAreFaster(options_.machine, left->of.bits, right->of.bits, channels))
      return std::nullopt;
    both.ofLeft = *left;
    both.ofRight = *right;
    return both;
  }

  /// The codes of few bits that a quantisation gives.
  Value bitsOf(const BitOperands &both) {
    OpBuilder::InsertionGuard guard(builder_);
    Operation *quantize = both.quantize;
    builder_.setInsertionPoint(quantize);
    Value numbers = rounded(both.quantize);
    Value codes = code_.add(numbers, graph_.scalar(f32_, double(-both.ofLeft.lowest)));
    return code_.cast(codes, IntegerType::get(builder_.getContext(), 8, IntegerType::Unsigned));
  }

  Value bitConvolution(graph::ConvOp op) {
    auto x = dyn_cast<RankedTensorType>(op.getX().getType());
    auto w = cast<RankedTensorType>(op.getW().getType());
    if (!x || x.getRank() < 3 || op.getLayout() != graph::kChannelsFirst ||
        llvm::any_of(op.getPads(), [](int64_t pad) { return pad < 0; }))
      return {};
    auto both = bitOperands(op, w.getDimSize(1));
    if (!both)
      return {};
    graph::BitConvolution as{.strides = llvm::to_vector(op.getStrides()),
                             .pads = llvm::to_vector(op.getPads()),
                             .dilations = llvm::to_vector(op.getDilations()),
                             .groups = int64_t(op.getGroup()),
                             .x = both->ofLeft.of,
                             .w = both->ofRight.of};
    Value filters = graph_.constant(codesOfConstant(both->right, both->ofRight));
    return scaledBits(graph::convolveBits(graph_, bitsOf(*both), filters, as), *both, /*axis=*/1);
  }

  Value bitProduct(graph::MatMulOp op) {
    auto b = cast<RankedTensorType>(op.getB().getType());
    if (b.getRank() != 2 || !b.hasStaticShape() || b.getNumElements() == 0)
      return {};
    auto both = bitOperands(op, b.getDimSize(0));
    if (!both)
      return {};
    Value matrix = graph_.constant(codesOfConstant(both->right, both->ofRight));
    Value sums =
        graph::multiplyBits(graph_, bitsOf(*both), matrix, both->ofLeft.of, both->ofRight.of);
    return scaledBits(sums, *both, sums ? GraphCode::rank(sums) - 1 : 0);
  }

  Value scaledBits(Value sums, const BitOperands &both, int64_t axis) {
    return scaled(sums, scaleOf(both.left->getResult(0)), scaleOf(both.right->getResult(0)), axis);
  }

  /// Tells what was chosen. Of one that stays, weights are numbers from here on, and its input's
  /// range is told, for what looks at those of float layers.
  bool staysFloat(Operation *op) {
    options_.offer(op, kernel::choice::operandBits, {kCodeBits, kFloatBits});
    auto asked = options_.asked(op)[kernel::choice::operandBits];
    std::optional<double> error = errorOfIntegers(op);
    bool refused = !asked && error && *error > std::min(kCodeBound, options_.layerBound) &&
                   errorOfDequantized(op) < *error / 2;
    bool stays = refused || asked == kFloatBits;
    kernel::Point chosen;
    chosen.set(kernel::choice::operandBits, stays ? kFloatBits : kCodeBits);
    options_.made(op, chosen, stays ? 0 : error.value_or(0),
                  refused ? kernel::Refused{"operand_bits", kCodeBits, *error}
                          : ArrayRef<kernel::Refused>());
    if (!stays)
      return false;
    setMomentsOfCodes(op);
    if (Value weights = foldedConstant(op->getOperand(1), builder_))
      op->setOperand(1, weights);
    if (options_.precision == Precision::Bfloat)
      graph::keepPrecision(op);
    return true;
  }

  static Value behindTranspositions(Value value) {
    while (auto transpose = value.getDefiningOp<graph::TransposeOp>())
      value = transpose.getX();
    return value;
  }

  /// What a code stands for, of a value that has a `scaleAxis`: a scalar, or a vector.
  Value scaleOf(Value value) {
    Value scale = dequantizationOf(behindTranspositions(value)).getScale();
    return isScalar(scale) ? code_.reshape(scale, {}) : scale;
  }

  /// The codes behind such a value, as bytes of that kind or, of null, as numbers of i16.
  Numbers numbersOf(Value value, Type kind) {
    if (auto transpose = value.getDefiningOp<graph::TransposeOp>()) {
      Numbers numbers = numbersOf(transpose.getX(), kind);
      numbers.values = code_.transpose(numbers.values, transpose.getPermutation());
      if (numbers.zero && !isScalar(numbers.zero))
        numbers.zero = code_.transpose(numbers.zero, transpose.getPermutation());
      return numbers;
    }
    graph::DequantizeOp op = dequantizationOf(value);
    if (graph::QuantizeOp quantize = quantizationBefore(op))
      return storedNumbers(quantize, kind);
    Value zero;
    if (!isZero(op.getZeroPoint())) {
      zero = code_.cast(op.getZeroPoint(), i16_);
      zero = isScalar(zero)
                 ? code_.reshape(zero, {})
                 : code_.alongDimension(zero, *scaleAxis(value), GraphCode::rank(op.getX()));
    }
    return kind ? asBytes({op.getX(), zero}, kind)
                : Numbers{less(code_.cast(op.getX(), i16_), zero), Value()};
  }

  /// The codes as bytes of that kind.
  Numbers asBytes(Numbers numbers, Type kind) {
    if (GraphCode::element(numbers.values) == kind)
      return numbers;
    numbers.zero = movedZero(numbers.zero, kind);
    Value half = graph_.scalar(i16_, isUnsigned(kind) ? 128 : -128);
    numbers.values = code_.cast(code_.add(code_.cast(numbers.values, i16_), half), kind);
    return numbers;
  }

  /// The zero point of codes that are moved to be of that kind.
  Value movedZero(Value zero, Type kind) {
    Value half = graph_.scalar(i16_, isUnsigned(kind) ? 128 : -128);
    zero = zero ? code_.add(zero, half) : half;
    Value known = foldedConstant(zero, builder_);
    return known && isZero(known) ? Value() : zero;
  }

  /// The codes that are dequantised, or of which a difference is taken; null: there are none.
  static Value codesBehind(Value value) {
    value = behindTranspositions(value);
    if (graph::DequantizeOp op = dequantizationOf(value))
      return op.getX();
    auto difference = value.getDefiningOp<graph::SubOp>();
    Value codes = difference ? difference.getA() : value;
    return isCodes(codes) ? codes.getDefiningOp<graph::CastOp>().getX() : Value();
  }

  /// What a left operand's codes are multiplied as; null where it has none, or the machine
  /// multiplies no bytes.
  Type leftKind(Value value) {
    Value codes = codesBehind(value);
    return codes ? leftBytes(options_.machine, getElementTypeOrSelf(codes.getType())) : Type();
  }

  /// Sums of products of two operands that have a `scaleAxis`.
  Value sumsOfCodes(Operation *op) {
    Value left = op->getOperand(0), right = op->getOperand(1);
    Type kind = leftKind(left);
    bool isKnown = bool(graph::constantTensor(codesBehind(right)));
    if (kind && takesBytes(op, zeroOf(left, kind), zeroOf(right, i8_), isKnown))
      return ofBytes(op, numbersOf(left, kind), numbersOf(right, i8_));
    // What is in memory is so as bytes, where any are multiplied.
    auto numbers = [&](Value operand, Type bytes) {
      bool isMade = bool(quantizationBefore(dequantizationOf(behindTranspositions(operand))));
      return relative(numbersOf(operand, isMade ? bytes : Type()));
    };
    SmallVector<Value> operands{numbers(left, kind), numbers(right, kind ? i8_ : Type())};
    if (isa<graph::ConvOp>(op))
      operands.push_back(graph_.none());
    return product(op, operands);
  }

  /// Whether the operand's codes have a zero point once they are of that kind.
  bool zeroOf(Value value, Type kind) {
    graph::DequantizeOp op = dequantizationOf(behindTranspositions(value));
    auto own = cast<IntegerType>(getElementTypeOrSelf(op.getX().getType()));
    if (own == kind)
      return !isZero(op.getZeroPoint());
    // The code that is moved to zero.
    int64_t code = own.isUnsigned() ? 128 : -128;
    auto known = graph::constantTensor(op.getZeroPoint());
    if (!known)
      return true;
    for (int64_t number = 0; number < known->size(); ++number)
      if (known->getInt(number) != code)
        return true;
    return false;
  }

  /// Whether bytes are multiplied, of operands with zero points or without, the right one known or
  /// not: where no sums are needed that cost more than what they save.
  bool takesBytes(Operation *op, bool leftHasZero, bool rightHasZero, bool rightIsKnown) {
    if (isa<graph::ConvOp>(op))
      return !rightHasZero;
    auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!result || result.getRank() < 2)
      return false;
    // All rows of a stack share a right operand that is none.
    auto right = cast<RankedTensorType>(op->getOperand(1).getType());
    bool isShared = llvm::all_of(right.getShape().drop_back(2), [](int64_t n) { return n == 1; });
    auto isMany = [](ArrayRef<int64_t> sizes) {
      int64_t product = 1;
      for (int64_t size : sizes)
        product *= ShapedType::isDynamic(size) ? kProductsOfSum : size;
      return product >= kProductsOfSum;
    };
    ArrayRef<int64_t> columns = result.getShape().take_back();
    ArrayRef<int64_t> rows = result.getShape().drop_back();
    if (!isShared)
      rows = rows.take_back();
    return (!rightHasZero || isMany(columns)) && (!leftHasZero || rightIsKnown || isMany(rows));
  }

  static bool isUnsigned(Type byte) { return byte.isUnsignedInteger(); }

  /// Numbers of i16, relative to the zero point.
  Value relative(const Numbers &numbers) {
    return less(code_.cast(numbers.values, i16_), numbers.zero);
  }
  Value less(Value numbers, Value zero) {
    return zero ? code_.sub(numbers, code_.cast(zero, GraphCode::element(numbers))) : numbers;
  }

  /// A product of bytes, less what their zero points add to each sum.
  Value ofBytes(Operation *op, const Numbers &x, const Numbers &weights) {
    auto conv = dyn_cast<graph::ConvOp>(op);
    int64_t rank = GraphCode::rank(weights.values);
    Value sums = conv && x.zero ? ofPadded(conv, x, weights.values)
                                : withoutBias(op, x.values, weights.values, {});
    if (x.zero) {
      SmallVector<int64_t> axes{rank - 2};
      if (conv)
        axes = llvm::to_vector(llvm::seq<int64_t>(1, rank));
      Value sum =
          code_.reduce("graph.reduce_sum", less(code_.cast(weights.values, i32_), weights.zero),
                       axes, /*keepdims=*/!conv);
      if (conv)
        sum = code_.alongDimension(sum, 1, rank);
      sums = code_.sub(sums, code_.mul(sum, code_.cast(x.zero, i32_)));
    }
    if (!weights.zero)
      return sums;
    Value sum = code_.reduce("graph.reduce_sum", code_.cast(x.values, i32_),
                             {GraphCode::rank(x.values) - 1}, /*keepdims=*/true);
    return code_.sub(sums, code_.mul(sum, code_.cast(weights.zero, i32_)));
  }

  /// Pixels outside of the image are the zero point.
  Value ofPadded(graph::ConvOp op, const Numbers &x, Value weights) {
    size_t spatial = op.getStrides().size();
    ArrayRef<int64_t> pads = op.getPads();
    if (llvm::all_of(pads, [](int64_t pad) { return pad == 0; }))
      return withoutBias(op, x.values, weights, {});
    SmallVector<int64_t> low{0, 0}, high{0, 0}, none(2 * spatial, 0);
    llvm::append_range(low, pads.take_front(spatial));
    llvm::append_range(high, pads.drop_front(spatial));
    Value outside = code_.cast(x.zero, GraphCode::element(x.values));
    Value padded = code_.op("graph.pad", {x.values, outside},
                            {code_.integers("low", low), code_.integers("high", high)});
    return withoutBias(op, padded, weights, code_.integers("pads", none));
  }

  Value withoutBias(Operation *op, Value x, Value weights, std::optional<NamedAttribute> changed) {
    SmallVector<Value> operands{x, weights};
    if (isa<graph::ConvOp>(op))
      operands.push_back(graph_.none());
    return product(op, operands, changed);
  }

  /// The value in i16, where it is 8-bit codes as i32, or a difference of them.
  Value narrow(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto difference = dyn_cast_or_null<graph::SubOp>(op)) {
      if (!isCodes(difference.getA()) || !isCodes(difference.getB()))
        return {};
      return code_.sub(narrow(difference.getA()), narrow(difference.getB()));
    }
    if (auto transpose = dyn_cast_or_null<graph::TransposeOp>(op))
      return code_.transpose(narrow(transpose.getX()), transpose.getPermutation());
    return isCodes(value) ? code_.cast(cast<graph::CastOp>(op).getX(), i16_) : Value();
  }

  /// Codes as i32, or their difference from a single zero point, as bytes of that kind.
  std::optional<Numbers> byteDifference(Value value, Type kind) {
    if (auto transpose = value.getDefiningOp<graph::TransposeOp>()) {
      auto numbers = byteDifference(transpose.getX(), kind);
      if (numbers)
        numbers->values = code_.transpose(numbers->values, transpose.getPermutation());
      return numbers;
    }
    auto difference = value.getDefiningOp<graph::SubOp>();
    Value codes = difference ? difference.getA() : value;
    if (!kind || !isCodes(codes) || (difference && !isCodes(difference.getB())))
      return std::nullopt;
    Numbers numbers{codes.getDefiningOp<graph::CastOp>().getX(), Value()};
    if (difference) {
      Value zero = difference.getB().getDefiningOp<graph::CastOp>().getX();
      if (getElementTypeOrSelf(zero) != getElementTypeOrSelf(numbers.values))
        return std::nullopt;
      if (!isZero(zero) && !isScalar(zero))
        return std::nullopt;
      numbers.zero = isZero(zero) ? Value() : code_.reshape(code_.cast(zero, i16_), {});
    }
    return asBytes(numbers, kind);
  }

  static bool isCodes(Value value) {
    auto op = value.getDefiningOp<graph::CastOp>();
    return op && getElementTypeOrSelf(value.getType()).isSignlessInteger(32) &&
           isa<RankedTensorType>(value.getType()) &&
           getElementTypeOrSelf(op.getX().getType()).isInteger(8);
  }

  /// What a quantisation gives less its zero point, as whole numbers of f32.
  Value rounded(graph::QuantizeOp op) {
    bool isUnsigned = cast<IntegerType>(op.getTo()).isUnsigned();
    Value scale = code_.reshape(op.getScale(), {});
    bool divides = options_.precision == Precision::Exact || !hasReciprocal(op.getScale());
    Value y = divides ? code_.div(op.getX(), scale)
                      : code_.mul(op.getX(), code_.div(graph_.scalar(f32_, 1), scale));
    Value zero = isZero(op.getZeroPoint()) ? Value()
                                           : code_.reshape(code_.cast(op.getZeroPoint(), f32_), {});
    int64_t low = isUnsigned ? 0 : -128;
    auto bound = [&](int64_t code) {
      Value limit = graph_.scalar(f32_, double(code));
      return zero ? code_.sub(limit, zero) : limit;
    };
    y = code_.op("graph.max", {code_.unary("graph.round", y), bound(low)});
    return code_.op("graph.min", {y, bound(low + 255)});
  }

  /// The same in memory, made once, where the codes are: as bytes of that kind or, of null, as
  /// numbers of i16.
  Numbers storedNumbers(graph::QuantizeOp op, Type kind) {
    Numbers &numbers = stored_[{op, kind}];
    if (numbers.values)
      return numbers;
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPoint(op);
    numbers.values = code_.cast(rounded(op), i16_);
    if (!kind)
      return numbers;
    if (!isZero(op.getZeroPoint()))
      numbers.zero = code_.reshape(code_.cast(op.getZeroPoint(), i16_), {});
    if (op.getTo() != kind)
      numbers.zero = movedZero(numbers.zero, kind);
    Value codes = numbers.zero ? code_.add(numbers.values, numbers.zero) : numbers.values;
    numbers.values = code_.cast(codes, kind);
    return numbers;
  }

  /// The operator over other operands, with sums of i32.
  Value product(Operation *op, ArrayRef<Value> operands,
                std::optional<NamedAttribute> changed = std::nullopt) {
    NamedAttrList attributes(op->getAttrs());
    attributes.set("accumulate_i32", builder_.getBoolAttr(true));
    if (changed)
      attributes.set(changed->getName(), changed->getValue());
    Value sums = code_.op(op->getName().getStringRef(), operands, attributes);
    if (sums)
      dropInputMoments(sums.getDefiningOp()); // of numbers, and not of codes
    return sums;
  }

  /// Sums of products of codes as numbers; the right operand's scales lie along `axis` of them.
  Value scaled(Value sums, Value leftScale, Value rightScale, int64_t axis) {
    if (!sums)
      return {};
    if (!isScalar(rightScale))
      rightScale = code_.alongDimension(rightScale, axis, GraphCode::rank(sums));
    return code_.mul(code_.cast(sums, f32_), code_.mul(rightScale, leftScale));
  }

  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  GraphCode code_;
  StoredNumbers &stored_;
  const Options &options_;
  Type i8_, i16_, i32_, f32_;
};

} // namespace

LogicalResult multiplyIntegers(func::FuncOp function, const Options &options) {
  SmallVector<Operation *> products;
  SmallVector<graph::DequantizeOp> dequantizations;
  function.walk([&](Operation *op) {
    if (isa<graph::ConvOp, graph::MatMulOp>(op))
      products.push_back(op);
    else if (auto dequantize = dyn_cast<graph::DequantizeOp>(op);
             dequantize && dequantizationOf(dequantize.getY()))
      dequantizations.push_back(dequantize);
  });
  StoredNumbers stored;
  auto replace = [](Operation *op, Value value) {
    if (!value || value.getType() != op->getResult(0).getType())
      return;
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  };
  for (Operation *op : products) {
    Rewriter rewriter(op, stored, options);
    auto conv = dyn_cast<graph::ConvOp>(op);
    if (getElementTypeOrSelf(op->getResult(0).getType()).isSignlessInteger(32))
      replace(op, rewriter.ofDifferences(op));
    else
      replace(op, conv ? rewriter.convolution(conv)
                       : rewriter.matrixProduct(cast<graph::MatMulOp>(op)));
  }
  for (graph::DequantizeOp op : dequantizations)
    if (graph::QuantizeOp quantize = quantizationBefore(op))
      replace(op, Rewriter(op, stored, options).withoutCodes(op, quantize));
  return success();
}

} // namespace tensmith::rewrite
