// Products of dequantised codes become products of integers, scaled afterwards.
//
// before: conv(dequantize(x, sx, zx), dequantize(w, sw, zw), bias)
// after:  cast(conv(x - zx, w - zw), f32) * (sx * sw) + bias, the sums in i32, and exact
//
// and matrix products alike. Codes of 8 bits less their zero point are 16-bit numbers, of which a
// machine adds up products in pairs; the padding of an image is zero in them. x has one scale and
// one zero point, w one or one for each output. The same algebra is behind QLinearConv and
// QLinearMatMul (Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", 2018).
//
// before: dequantize(quantize(y, s, z), t, z)
// after:  clamp(round(y / s), low - z, high - z) * t
//
// Codes that are made and taken apart again are never offset by their zero point, and are integers
// in memory where a product reads them only.
//
// before: matmul(cast(x, i32) - cast(zx, i32), cast(w, i32) - cast(zw, i32)), x and w of 8 bits
// after:  the same of i16, with sums in i32
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphCode.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using graph::GraphCode;

/// Products of two numbers of nine bits and a sign that a sum in i32 holds, whatever they are.
constexpr int64_t kMostProducts = ((int64_t(1) << 31) - 1) / (255 * 255);

/// An operand as codes: numbers relative to their zero point, and what one of them stands for.
struct Codes {
  Value numbers; // of i16
  Value scale;   // a scalar, or a vector along `axis`
  int64_t axis = -1;
};

bool isScalar(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == 1;
}

bool isVector(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 1 && !type.isDynamicDim(0);
}

/// The dequantisation that makes the value, of 8-bit codes to f32.
graph::DequantizeOp dequantizationOf(Value value) {
  auto op = value.getDefiningOp<graph::DequantizeOp>();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  bool fits = op && type && type.getElementType().isF32() && op.getBlockSize() == 0 &&
              isa<RankedTensorType>(op.getX().getType()) &&
              getElementTypeOrSelf(op.getX().getType()).isInteger(8) &&
              (isScalar(op.getScale()) || isVector(op.getScale()));
  return fits ? op : graph::DequantizeOp();
}

/// The quantisation whose codes the operator takes, if both have one scale, and the same zero
/// point.
graph::QuantizeOp quantizationBefore(graph::DequantizeOp op) {
  auto quantize = op.getX().getDefiningOp<graph::QuantizeOp>();
  bool fits = quantize && quantize.getZeroPoint() == op.getZeroPoint() &&
              isScalar(quantize.getScale()) && quantize.getBlockSize() == 0 &&
              (GraphCode::isAbsent(op.getZeroPoint()) || isScalar(op.getZeroPoint())) &&
              isa<RankedTensorType>(quantize.getX().getType()) &&
              getElementTypeOrSelf(quantize.getX().getType()).isF32() &&
              getElementTypeOrSelf(quantize.getScale().getType()).isF32();
  return fits ? quantize : graph::QuantizeOp();
}

/// What quantisations give less their zero points, in i16: of those that products read.
using Numbers = llvm::DenseMap<Operation *, Value>;

class Rewriter {
public:
  Rewriter(Operation *op, Numbers &numbers, bool exact)
      : builder_(op), shapes_(op->getContext()), graph_(builder_, shapes_, op->getLoc()),
        code_(graph_), numbers_(numbers), exact_(exact) {}

  /// What the codes of a quantisation stand for.
  Value withoutCodes(graph::DequantizeOp op, graph::QuantizeOp quantize) {
    Value stored = numbers_.lookup(quantize);
    Value numbers = stored ? code_.cast(stored, builder_.getF32Type()) : quantized(quantize);
    return code_.mul(numbers, code_.reshape(op.getScale(), {}));
  }

  /// The codes behind the value, through a transposition of them.
  std::optional<Codes> codesOf(Value value) {
    if (auto transpose = value.getDefiningOp<graph::TransposeOp>()) {
      auto codes = codesOf(transpose.getX());
      if (!codes)
        return std::nullopt;
      codes->numbers = code_.transpose(codes->numbers, transpose.getPermutation());
      if (codes->axis >= 0)
        codes->axis = llvm::find(transpose.getPermutation(), codes->axis) -
                      transpose.getPermutation().begin();
      return codes;
    }
    graph::DequantizeOp op = dequantizationOf(value);
    if (!op)
      return std::nullopt;
    int64_t rank = cast<RankedTensorType>(op.getX().getType()).getRank();
    if (graph::QuantizeOp quantize = quantizationBefore(op); quantize && isScalar(op.getScale()))
      return Codes{storedNumbers(quantize), code_.reshape(op.getScale(), {})};
    Codes codes{code_.cast(op.getX(), builder_.getI16Type()), op.getScale()};
    if (!isScalar(op.getScale()))
      codes.axis = op.getAxis() < 0 ? op.getAxis() + rank : op.getAxis();
    else
      codes.scale = code_.reshape(op.getScale(), {});
    if (GraphCode::isAbsent(op.getZeroPoint()))
      return codes;
    Value zero = code_.cast(op.getZeroPoint(), builder_.getI16Type());
    bool single = isScalar(zero);
    if (!single && codes.axis < 0)
      return std::nullopt;
    zero = single ? code_.reshape(zero, {}) : code_.alongDimension(zero, codes.axis, rank);
    codes.numbers = code_.sub(codes.numbers, zero);
    return codes;
  }

  /// A product of 32-bit integers that are differences of codes.
  Value ofDifferences(Operation *op) {
    Value left = narrow(op->getOperand(0)), right = narrow(op->getOperand(1));
    SmallVector<Value> operands{left, right};
    llvm::append_range(operands, op->getOperands().drop_front(2));
    return left && right ? product(op, operands) : Value();
  }

  Value convolution(graph::ConvOp op) {
    auto w = dyn_cast<RankedTensorType>(op.getW().getType());
    bool fits = w && w.hasStaticShape() && !kernel::isDepthwise(op) && !op.getAccumulateI32() &&
                w.getNumElements() / std::max<int64_t>(w.getDimSize(0), 1) <= kMostProducts;
    if (!fits || !dequantizationOf(op.getX()))
      return {};
    auto x = codesOf(op.getX()), weights = codesOf(op.getW());
    if (!x || !weights || x->axis >= 0 || weights->axis > 0)
      return {};
    int64_t rank = w.getRank();
    Value sums = product(op, {x->numbers, weights->numbers, graph_.none()});
    Value y = scaled(sums, *x, *weights, /*axis=*/1);
    if (!GraphCode::isAbsent(op.getBias()))
      y = code_.add(y, code_.alongDimension(op.getBias(), 1, rank));
    return y;
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
    auto left = codesOf(op.getA()), right = codesOf(op.getB());
    if (!left || !right || left->axis >= 0 || (right->axis >= 0 && right->axis != b.getRank() - 1))
      return {};
    return scaled(product(op, {left->numbers, right->numbers}), *left, *right,
                  result.getRank() - 1);
  }

private:
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
    return isCodes(value) ? code_.cast(cast<graph::CastOp>(op).getX(), builder_.getI16Type())
                          : Value();
  }

  static bool isCodes(Value value) {
    auto op = value.getDefiningOp<graph::CastOp>();
    return op && getElementTypeOrSelf(value.getType()).isSignlessInteger(32) &&
           isa<RankedTensorType>(value.getType()) &&
           getElementTypeOrSelf(op.getX().getType()).isInteger(8);
  }

  /// Codes less their zero point, as whole numbers of f32.
  Value quantized(graph::QuantizeOp op) {
    auto type = cast<IntegerType>(op.getTo());
    int64_t codes = int64_t(1) << type.getWidth(), low = type.isUnsigned() ? 0 : -codes / 2;
    Value scale = code_.reshape(op.getScale(), {});
    Value y = exact_
                  ? code_.div(op.getX(), scale)
                  : code_.mul(op.getX(), code_.div(graph_.scalar(builder_.getF32Type(), 1), scale));
    y = code_.unary("graph.round", y);
    y = code_.op("graph.max", {y, bound(op, low)});
    return code_.op("graph.min", {y, bound(op, low + codes - 1)});
  }

  Value bound(graph::QuantizeOp op, int64_t code) {
    Value limit = graph_.scalar(builder_.getF32Type(), double(code));
    if (GraphCode::isAbsent(op.getZeroPoint()))
      return limit;
    return code_.sub(limit,
                     code_.reshape(code_.cast(op.getZeroPoint(), builder_.getF32Type()), {}));
  }

  /// The same in i16, made once, where the codes are.
  Value storedNumbers(graph::QuantizeOp op) {
    Value &numbers = numbers_[op];
    if (!numbers) {
      OpBuilder::InsertionGuard guard(builder_);
      builder_.setInsertionPoint(op);
      numbers = code_.cast(quantized(op), builder_.getI16Type());
    }
    return numbers;
  }

  /// The operator over other operands, with sums of i32.
  Value product(Operation *op, ArrayRef<Value> operands) {
    SmallVector<NamedAttribute> attributes;
    for (NamedAttribute attribute : op->getAttrs())
      if (attribute.getName() != "accumulate_i32")
        attributes.push_back(attribute);
    attributes.push_back(graph_.named("accumulate_i32", builder_.getBoolAttr(true)));
    return code_.op(op->getName().getStringRef(), operands, attributes);
  }

  /// Sums of products of codes as numbers; the right operand's scales lie along `axis` of them.
  Value scaled(Value sums, const Codes &left, const Codes &right, int64_t axis) {
    if (!sums)
      return {};
    Value scale = right.scale;
    if (right.axis >= 0)
      scale = code_.alongDimension(scale, axis, GraphCode::rank(sums));
    return code_.mul(code_.cast(sums, builder_.getF32Type()), code_.mul(scale, left.scale));
  }

  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  GraphCode code_;
  Numbers &numbers_;
  bool exact_;
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
  Numbers numbers;
  auto replace = [](Operation *op, Value value) {
    if (!value || value.getType() != op->getResult(0).getType())
      return;
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  };
  for (Operation *op : products) {
    Rewriter rewriter(op, numbers, options.exact);
    if (getElementTypeOrSelf(op->getResult(0).getType()).isSignlessInteger(32)) {
      replace(op, rewriter.ofDifferences(op));
      continue;
    }
    auto conv = dyn_cast<graph::ConvOp>(op);
    replace(op,
            conv ? rewriter.convolution(conv) : rewriter.matrixProduct(cast<graph::MatMulOp>(op)));
  }
  for (graph::DequantizeOp op : dequantizations)
    if (graph::QuantizeOp quantize = quantizationBefore(op); quantize && isScalar(op.getScale()))
      replace(op, Rewriter(op, numbers, options.exact).withoutCodes(op, quantize));
  return success();
}

} // namespace tensmith::rewrite
