// Products of matrices, whole numbers included.
#include "frontends/onnx/Bits.h"
#include "frontends/onnx/IntegerProducts.h"
#include "frontends/onnx/Widened.h"

namespace tensmith::onnx_import {
namespace {

LogicalResult matmul(NodeImport &n) { return n.give({n.matmul(n.input(0), n.input(1))}); }

Value scaled(NodeImport &n, Value x, double factor) { return factor == 1 ? x : n.mul(x, factor); }

LogicalResult scaledSum(NodeImport &n) {
  if (failed(n.needRank(0)) || failed(n.needRank(1)))
    return failure();
  if (n.rank(n.input(0)) != 2 || n.rank(n.input(1)) != 2)
    return n.error("operands have ranks " + llvm::Twine(n.rank(n.input(0))) + " and " +
                   llvm::Twine(n.rank(n.input(1))) + ", not 2");
  Value a = n.input(0), b = n.input(1), c = n.input(2);
  a = n.intAttr("transA") ? n.transpose(a, {1, 0}) : a;
  b = n.intAttr("transB") ? n.transpose(b, {1, 0}) : b;
  Value product = scaled(n, n.matmul(a, b), n.floatAttr("alpha", 1));
  double beta = n.floatAttr("beta", 1);
  if (!c || beta == 0)
    return n.give({product});
  // c is broadcast to the product, and not the product to c.
  auto fits = [&] {
    auto own = n.dims(c), all = n.dims(product);
    return own.size() <= all.size() &&
           llvm::all_of(llvm::zip(llvm::reverse(own), llvm::reverse(all)), [&](auto sizes) {
             return NodeImport::known(std::get<0>(sizes)) == 1 ||
                    n.graph.shapes.equal(std::get<0>(sizes), std::get<1>(sizes));
           });
  };
  Value addend = scaled(n, c, beta);
  if (n.isRanked(c) && !fits())
    addend = n.broadcast(addend, n.dims(product));
  return n.give({n.add(product, addend)});
}

LogicalResult gemm(NodeImport &n) {
  bool isProduct = n.floatAttr("alpha", 1) == 1 && (!n.has(2) || n.floatAttr("beta", 1) == 0);
  return isProduct ? scaledSum(n) : widened<scaledSum>(n);
}

LogicalResult einsum(NodeImport &n) {
  return n.give({n("graph.einsum", SmallVector<Value>(n.inputs),
                   {n.text("equation", n.stringAttr("equation"))})});
}

LogicalResult det(NodeImport &n) { return n.give({n.unary("graph.det", n.input(0))}); }

/// A zero point or scale of each row of the left operand.
Value ofRows(NodeImport &n, Value x) {
  if (!x || !n.isRanked(x) || n.rank(x) != 1 || NodeImport::known(n.dims(x)[0]) == 1)
    return x;
  return n.reshape(x, {n.dims(x)[0], n.size(1)});
}

LogicalResult matmulInteger(NodeImport &n) {
  return n.give({n.matmul(shifted(n, n.input(0), ofRows(n, n.input(2))),
                          shifted(n, n.input(1), n.input(3)))});
}

/// Operands: a, its scale and zero point; b, the same; y's.
LogicalResult qlinearMatmul(NodeImport &n) {
  if (n.inputCount() < 8)
    return n.error("has " + llvm::Twine(n.inputCount()) + " operands, not 8");
  Value product =
      n.matmul(shifted(n, n.input(0), ofRows(n, n.input(2))), shifted(n, n.input(3), n.input(5)));
  Value scale = n.mul(widened(n, ofRows(n, n.input(1))), widened(n, n.input(4)));
  return n.give({requantized(n, product, scale, n.input(6), n.input(7))});
}

constexpr Operator kOperators[] = {
    {"MatMul", matmul},
    {"Gemm", gemm},
    {"Einsum", einsum},
    {"Det", det},
    {"MatMulInteger", matmulInteger},
    {"QLinearMatMul", qlinearMatmul},
    {"BitMatMul", bitMatMul, kTensmith},
};

} // namespace

std::span<const Operator> contractionOperators() { return kOperators; }

} // namespace tensmith::onnx_import
