// Numbers of few bits, which ONNX has no operators for: domain "tensmith".
//
//   BitPack(x; axis, planes, bits, word)      as graph.bit_pack
//   BitConv(x, w; bits_x, bits_w, bipolar_x, bipolar_w, strides, pads, dilations, group)
//   BitMatMul(a, b; bits_a, bits_b, bipolar_a, bipolar_b)
//
// x, w, a and b are codes of u8 or i8, of which the lower bits count, in the layouts of Conv and
// MatMul; results are sums in i32. A code c of b bits is the number c, or 2 c - (2^b - 1) where the
// side is bipolar. Pads are the number 0.
#include "frontends/onnx/Bits.h"

#include "compiler/graph/Bits.h"
#include "frontends/onnx/Windows.h"

namespace tensmith::onnx_import {
namespace {

FailureOr<graph::Codes> codesOf(NodeImport &n, StringRef side) {
  int64_t bits = n.intAttr(("bits_" + side).str(), 1);
  if (bits < 1 || bits > 8)
    return n.error("bits_" + side + " is " + llvm::Twine(bits) + "; 1 to 8 are possible");
  return n.intAttr(("bipolar_" + side).str()) ? graph::Codes::bipolar(bits)
                                              : graph::Codes::unipolar(bits);
}

/// That an operand is of bytes, and of sizes that are known from dimension `first` on.
LogicalResult needCodes(NodeImport &n, size_t number, int64_t first) {
  if (failed(n.needRank(number)))
    return failure();
  Value x = n.input(number);
  if (!n.element(x).isInteger(8))
    return n.error("operand " + llvm::Twine(number) + " is not of codes in int8 or uint8");
  for (AffineExpr size : ArrayRef(n.dims(x)).drop_front(std::min(first, n.rank(x))))
    if (!NodeImport::known(size) || *NodeImport::known(size) == 0)
      return n.error("operand " + llvm::Twine(number) +
                     " needs sizes that are known and not 0, since sums of i32 are proved by them");
  return success();
}

} // namespace

LogicalResult bitPack(NodeImport &n) {
  if (failed(n.needRank(0)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(n.input(0)));
  auto planes = n.axis(n.intAttr("planes", -1), n.rank(n.input(0)) + 1);
  if (failed(axis) || failed(planes))
    return failure();
  return n.give(
      {n("graph.bit_pack", {n.input(0)},
         {n.integer("axis", *axis), n.integer("planes", *planes),
          n.integer("bits", n.intAttr("bits", 1)), n.integer("word", n.intAttr("word", 64))})});
}

LogicalResult bitConv(NodeImport &n) {
  if (failed(needCodes(n, 0, 64)) || failed(needCodes(n, 1, 0)))
    return failure();
  Value x = n.input(0), w = n.input(1);
  int64_t rank = n.rank(x), groups = n.intAttr("group", 1);
  if (rank < 3 || n.rank(w) != rank)
    return n.error("operands x and w have ranks " + llvm::Twine(rank) + " and " +
                   llvm::Twine(n.rank(w)));
  int64_t filters = *NodeImport::known(n.dims(w)[0]), channels = *NodeImport::known(n.dims(w)[1]);
  auto given = NodeImport::known(n.dims(x)[1]);
  if (groups < 1 || filters % groups != 0 || !given || *given % groups != 0 ||
      *given / groups != channels)
    return n.error("group is " + llvm::Twine(groups) + ", x has " +
                   (given ? llvm::Twine(*given) : llvm::Twine("an unknown number of")) +
                   " channels, w " + llvm::Twine(channels) + " for each of " +
                   llvm::Twine(filters) + " filters");
  auto window = windowOf(n, x, w);
  auto ofX = codesOf(n, "x"), ofW = codesOf(n, "w");
  if (failed(window) || failed(ofX) || failed(ofW))
    return failure();
  if (window->isPadded() || llvm::any_of(window->pads, [](int64_t pad) { return pad < 0; }))
    return n.error("needs pads that are known and not negative");
  return n.give({graph::convolveBits(
      n.graph, x, w, {window->strides, window->pads, window->dilations, groups, *ofX, *ofW})});
}

LogicalResult bitMatMul(NodeImport &n) {
  if (failed(needCodes(n, 0, 64)) || failed(needCodes(n, 1, 0)))
    return failure();
  Value a = n.input(0), b = n.input(1);
  if (n.rank(a) < 1 || n.rank(b) != 2)
    return n.error("b has rank " + llvm::Twine(n.rank(b)) + ", not 2, or a is a scalar");
  if (!n.graph.shapes.equal(n.dims(a).back(), n.dims(b)[0]))
    return n.error("the last dimension of a is not the first of b");
  auto ofA = codesOf(n, "a"), ofB = codesOf(n, "b");
  if (failed(ofA) || failed(ofB))
    return failure();
  return n.give({graph::multiplyBits(n.graph, a, b, *ofA, *ofB)});
}

} // namespace tensmith::onnx_import
