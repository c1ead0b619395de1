// Winograd convolution: shape functions of its transforms (records in ConvolutionOps.td).
#include "base/ToomCook.h"
#include "compiler/graph/Inference.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// (W2); the number of frequencies.
std::optional<int64_t> frequencies(Inference &infer, int64_t outputs, int64_t taps) {
  bool integers = isa<IntegerType>(infer.element(0));
  if (integers ? !hasWholeToomCook(outputs, taps) : !hasToomCook(outputs, taps)) {
    infer.error() << "(W2) there is no transform for " << outputs << " outputs of " << taps
                  << " taps";
    return std::nullopt;
  }
  return (outputs + taps - 1) * (outputs + taps - 1);
}

} // namespace

LogicalResult WinogradInputOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto planes = frequencies(infer, getOutputs(), getTaps());
  if (!planes)
    return failure();
  if (infer.unranked() || failed(infer.requireRank(0, 4, 4, "x")))
    return infer.error() << "(W1) x must be of rank 4";
  Dims x = infer.dims(0);
  if (getPads().size() != 4)
    return infer.error() << "(W1) x must have four pads";
  AffineExpr tiles = x[0];
  for (size_t dim = 0; dim < 2; ++dim) {
    AffineExpr size = x[1 + dim] + getPads()[dim] + getPads()[2 + dim] - int64_t(getTaps()) + 1;
    // Of each factor, since of an expanded product nothing can be shown. No output, no tile.
    if (failed(infer.requireAtMost(infer.constant(0), size,
                                   "(W1) the result would have a negative dimension, {b}")))
      return failure();
    AffineExpr count = size.ceilDiv(int64_t(getOutputs()));
    tiles = infer.size(tiles * count);
  }
  return infer.give(infer.element(0), {infer.constant(*planes), tiles, x[3]});
}

LogicalResult WinogradWeightsOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto planes = frequencies(infer, getOutputs(), getTaps());
  if (!planes)
    return failure();
  if (infer.unranked() || failed(infer.requireRank(0, 4, 4, "w")))
    return infer.error() << "(W3) w must be of rank 4";
  Dims w = infer.dims(0);
  if (infer.known(w[2]) != int64_t(getTaps()) || infer.known(w[3]) != int64_t(getTaps()))
    return infer.error() << "(W3) the window of w is not " << getTaps() << " x " << getTaps();
  return infer.give(infer.element(0), {infer.constant(*planes), w[1], w[0]});
}

LogicalResult WinogradOutputOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto planes = frequencies(infer, getOutputs(), getTaps());
  if (!planes)
    return failure();
  if (infer.unranked() || failed(infer.requireRank(0, 3, 3, "x")))
    return infer.error() << "(W4) x must be of rank 3";
  Dims x = infer.dims(0);
  ArrayRef<int64_t> image = getImage();
  if (image.size() != 2 || image[0] == 0 || image[1] == 0 || infer.known(x[0]) != *planes)
    return infer.error() << "(W4) x must have a plane for each of " << *planes
                         << " frequencies, and the image a height and a width";
  if (failed(infer.requireBias(1, x[2], "(W5)")))
    return failure();
  if (image[0] < 0 || image[1] < 0) {
    auto declared = dyn_cast<RankedTensorType>(getY().getType());
    if (!declared || declared.getRank() != 4)
      return infer.error() << "(W4) has an image of no known size, and no result type of rank 4";
    results.push_back(declared);
    return success();
  }
  int64_t tiles =
      llvm::divideCeil(image[0], getOutputs()) * llvm::divideCeil(image[1], getOutputs());
  if (failed(infer.requireMultiple(x[1], tiles, "(W4)", "the number of tiles")))
    return failure();
  return infer.give(infer.element(0), {shapes.simplify(x[1].floorDiv(tiles)),
                                       infer.constant(image[0]), infer.constant(image[1]), x[2]});
}

} // namespace tensmith::graph
