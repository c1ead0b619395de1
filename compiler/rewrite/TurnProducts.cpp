// A product with the transposition of a large matrix that only a run knows is turned around, where
// its other operand is smaller.
//
// before: matmul(x, transpose(w))      after: transpose(matmul(w, transpose(x)))
//
// Columns of the right operand are packed into panels (RightOperand.h), and rows of the left one
// are read as they lie. Of a layer [out, in] whose weights are an input (PyTorch's graphs, steps of
// training) that is all weights in each run. Turned, what is packed are the samples, and what the
// product gives is transposed.
//
// Samples become columns, of which whole vectors are multiplied, and at least two: a tile of one
// reads as much as it multiplies. Sizes must be known. Under `exact` products stay what they are,
// and of 16-bit numbers, which are packed by pairs on both sides.
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/CostModel.h"
#include "compiler/rewrite/Rewrites.h"

#include <cmath>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr int64_t kLeastVectors = 2; // of samples
/// Of the time that a product takes with what is packed for it: less is not worth another kernel.
constexpr double kLeastGain = 0.05;

RankedTensorType knownMatrix(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  bool isKnown = type && type.getRank() == 2 && type.hasStaticShape() &&
                 (type.getElementType().isF32() || type.getElementType().isF64());
  return isKnown ? type : RankedTensorType();
}

/// What the right operand is the transposition of, if the block's run is given it; what was known
/// before is in panels already, and so is what another product packs.
Value turnedWeights(graph::MatMulOp product) {
  auto transpose = product.getB().getDefiningOp<graph::TransposeOp>();
  if (!transpose || !kernel::swapsLast(transpose) || !transpose->hasOneUse())
    return {};
  auto weights = dyn_cast<BlockArgument>(transpose.getX());
  return weights && weights.getOwner() == product->getBlock() ? Value(weights) : Value();
}

/// Cycles of [rows, depth] by [depth, columns], with bytes that are brought into another order for
/// it: packing is as fast as they can be read and written.
double cyclesOf(double rows, double depth, double columns, int64_t lanes, double moved,
                const kernel::Machine &machine) {
  double whole = std::ceil(columns / double(lanes)) * double(lanes);
  return kernel::cyclesOf(kernel::Products{1, rows, depth, whole}, machine) +
         kernel::cyclesOf(kernel::Traffic{2 * moved}, machine);
}

bool isWorthTurning(graph::MatMulOp product, const kernel::Machine &machine) {
  Value weights = turnedWeights(product);
  RankedTensorType x = knownMatrix(product.getA());
  if (!weights || !x || !knownMatrix(weights) || kernel::storedRight(product) != product.getB())
    return false;
  int64_t bytes = x.getElementType().getIntOrFloatBitWidth() / 8, lanes = machine.lanes(bytes);
  int64_t samples = x.getDimSize(0), in = x.getDimSize(1);
  int64_t out = knownMatrix(weights).getDimSize(0);
  if (samples <= (kLeastVectors - 1) * lanes)
    return false;
  double asIs =
      cyclesOf(double(samples), double(in), double(out), lanes, double(out * in * bytes), machine);
  double turned = cyclesOf(double(out), double(in), double(samples), lanes,
                           double(samples * (in + out) * bytes), machine);
  return turned < (1 - kLeastGain) * asIs;
}

void turn(graph::MatMulOp product) {
  OpBuilder builder(product);
  graph::ShapeContext shapes(product.getContext());
  graph::GraphBuilder graph(builder, shapes, product.getLoc());
  Value samples = graph.transpose(product.getA(), {1, 0});
  Value turned =
      graph::GraphBuilder::first(graph.create("matmul", {turnedWeights(product), samples}));
  Value result = turned ? graph.transpose(turned, {1, 0}) : Value();
  if (!result || result.getType() != product.getType())
    return;
  Operation *transpose = product.getB().getDefiningOp();
  product->getResult(0).replaceAllUsesWith(result);
  product.erase();
  transpose->erase();
}

} // namespace

LogicalResult turnProducts(func::FuncOp function, const Options &options) {
  if (options.precision == Precision::Exact)
    return success();
  SmallVector<graph::MatMulOp> products;
  function.walk([&](graph::MatMulOp product) {
    if (!product->getParentOfType<graph::KernelOp>() && isWorthTurning(product, options.machine))
      products.push_back(product);
  });
  llvm::for_each(products, turn);
  return success();
}

} // namespace tensmith::rewrite
