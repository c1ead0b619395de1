// Convolution by Fourier transforms: shape functions of its parts (records in ConvolutionOps.td and
// ConvolutionPassesOps.td).
#include "base/Fourier.h"
#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/graph/Inference.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// (F2)
std::optional<FourierTile> tileOf(Inference &infer, ArrayRef<int64_t> tile,
                                  ArrayRef<int64_t> window) {
  auto made = FourierTile::of(tile, window);
  if (!made)
    infer.error() << "(F2) there is no such tile for the window";
  return made;
}

/// Outputs along the dimensions of an image; none where (F1) does not hold.
std::optional<SmallVector<int64_t>> outputsOf(Inference &infer, ArrayRef<int64_t> image,
                                              ArrayRef<int64_t> window, ArrayRef<int64_t> pads) {
  bool fits = image.size() == window.size() && pads.size() == 2 * window.size();
  SmallVector<int64_t> outputs;
  for (size_t dim = 0; fits && dim < window.size(); ++dim) {
    fits = image[dim] > 0 && pads[dim] >= 0 && pads[dim + window.size()] >= 0;
    outputs.push_back(image[dim] + pads[dim] + pads[dim + window.size()] - window[dim] + 1);
    fits = fits && outputs.back() > 0;
  }
  if (fits)
    return outputs;
  infer.error() << "(F1) x must have one or two dimensions of known size that the window fits into";
  return std::nullopt;
}

/// 0 for one that is not known.
SmallVector<int64_t> knownSizes(Inference &infer, ArrayRef<AffineExpr> dims) {
  SmallVector<int64_t> sizes;
  for (AffineExpr size : dims)
    sizes.push_back(infer.known(size).value_or(0));
  return sizes;
}

/// Along the dimensions of the image that is operand 0.
SmallVector<int64_t> imageOf(Inference &infer) {
  Dims dims = infer.dims(0);
  return knownSizes(infer, ArrayRef(dims).drop_front().drop_back());
}

/// The same of the image that is operand 0.
std::optional<SmallVector<int64_t>> outputImage(Inference &infer, ArrayRef<int64_t> window,
                                                ArrayRef<int64_t> pads) {
  if (failed(infer.requireRank(0, 3, 4, "x")))
    return std::nullopt;
  return outputsOf(infer, imageOf(infer), window, pads);
}

/// A window with what lies between its taps; empty where dilations or sizes are no such.
SmallVector<int64_t> dilated(ArrayRef<int64_t> kernel, ArrayRef<int64_t> dilations) {
  SmallVector<int64_t> window;
  for (size_t dim = 0; dim < kernel.size() && kernel.size() == dilations.size(); ++dim)
    window.push_back(dilations[dim] * (kernel[dim] - 1) + 1);
  return window;
}

LogicalResult checkGroup(Inference &infer, AffineExpr channels, int64_t group) {
  if (group < 1)
    return infer.error() << "(F3) there are " << group << " groups";
  return infer.requireMultiple(channels, group, "(F3)", "the number of channels");
}

/// Operand 0, with each plane of the spectra for each group.
LogicalResult checkPlanes(Inference &infer, const FourierTile &tile, int64_t group) {
  if (infer.unranked() || failed(infer.requireRank(0, 3, 3, "x")))
    return infer.error() << "(F4) x must be of rank 3";
  if (group >= 1 && infer.known(infer.dims(0)[0]) == tile.planes(kFourierThirds) * group)
    return success();
  return infer.error() << "(F4) x must have each plane of the spectra for each group";
}

/// Images that operand 0 has all tiles of.
FailureOr<AffineExpr> imagesOf(Inference &infer, int64_t tiles) {
  AffineExpr all = infer.dims(0)[1];
  if (failed(infer.requireMultiple(all, tiles, "(F4)", "the number of tiles")))
    return failure();
  return infer.shapes.simplify(all.floorDiv(tiles));
}

/// [images, sizes, channels], of planes with so many tiles of each image.
LogicalResult giveImages(Inference &infer, int64_t tiles, ArrayRef<int64_t> sizes, int64_t group) {
  auto images = imagesOf(infer, tiles);
  if (failed(images))
    return failure();
  Dims dims{*images};
  for (int64_t size : sizes)
    dims.push_back(infer.constant(size));
  dims.push_back(infer.shapes.simplify(infer.dims(0)[2] * group));
  return infer.give(infer.element(0), dims);
}

} // namespace

LogicalResult FourierInputOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto tile = tileOf(infer, getTile(), getWindow());
  if (!tile)
    return failure();
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0)});
  auto image = outputImage(infer, getWindow(), getPads());
  if (!image)
    return failure();
  Dims x = infer.dims(0);
  int64_t group = int64_t(getGroup());
  if (failed(checkGroup(infer, x.back(), group)))
    return failure();
  return infer.give(infer.element(0),
                    {infer.constant(tile->planes(kFourierThirds) * group),
                     x[0] * tile->tilesOf(*image), shapes.simplify(x.back().floorDiv(group))});
}

LogicalResult FourierGradientOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto tile = tileOf(infer, getTile(), getWindow());
  if (!tile)
    return failure();
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0)});
  if (failed(infer.requireRank(0, 3, 4, "g")))
    return failure();
  SmallVector<int64_t> image = imageOf(infer);
  if (image.size() != getWindow().size() || llvm::is_contained(image, 0))
    return infer.error() << "(F1) g must have the window's dimensions, of known size";
  Dims g = infer.dims(0);
  int64_t group = int64_t(getGroup());
  if (failed(checkGroup(infer, g.back(), group)))
    return failure();
  return infer.give(infer.element(0),
                    {infer.constant(tile->planes(kFourierThirds) * group),
                     g[0] * tile->tilesOf(image), shapes.simplify(g.back().floorDiv(group))});
}

LogicalResult FourierWeightsOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0)});
  Dims w = infer.dims(0);
  SmallVector<int64_t> window =
      w.size() > 2 ? dilated(knownSizes(infer, ArrayRef(w).drop_front(2)), getDilations())
                   : SmallVector<int64_t>();
  if (w.size() != getDilations().size() + 2 || window.size() + 2 != w.size())
    return infer.error() << "(F2) w must have a window of known size";
  auto tile = tileOf(infer, getTile(), window);
  if (!tile)
    return failure();
  if (getPairs())
    return infer.give(infer.element(0), {infer.constant(tile->numbers()), w[0]});
  int64_t group = int64_t(getGroup());
  if (failed(checkGroup(infer, w[0], group)))
    return failure();
  return infer.give(infer.element(0), {infer.constant(tile->planes(kFourierThirds) * group), w[1],
                                       shapes.simplify(w[0].floorDiv(group))});
}

LogicalResult FourierChangingWeightsOp::inferResults(ShapeContext &shapes,
                                                     SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0)});
  if (failed(infer.requireRank(0, 3, 4, "w")))
    return failure();
  Dims w = infer.dims(0);
  auto tile = tileOf(infer, getTile(), dilated(imageOf(infer), getDilations()));
  int64_t group = int64_t(getGroup());
  if (!tile || failed(checkGroup(infer, w.back(), group)))
    return failure();
  return infer.give(infer.element(0), {infer.constant(tile->planes(kFourierThirds) * group), w[0],
                                       shapes.simplify(w.back().floorDiv(group))});
}

LogicalResult FourierOutputOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto tile = tileOf(infer, getTile(), getWindow());
  int64_t group = int64_t(getGroup());
  if (!tile || failed(checkPlanes(infer, *tile, group)))
    return failure();
  ArrayRef<int64_t> image = getImage();
  auto isEmpty = [](int64_t size) { return size <= 0; };
  if (image.size() != getWindow().size() || llvm::any_of(image, isEmpty))
    return infer.error() << "(F4) the image must have as many dimensions as the window";
  if (failed(infer.requireBias(1, infer.dims(0)[2] * group, "(F6)")))
    return failure();
  return giveImages(infer, tile->tilesOf(image), image, group);
}

LogicalResult FourierImageGradientOp::inferResults(ShapeContext &shapes,
                                                   SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto tile = tileOf(infer, getTile(), getWindow());
  int64_t group = int64_t(getGroup());
  if (!tile || failed(checkPlanes(infer, *tile, group)))
    return failure();
  auto outputs = outputsOf(infer, getImage(), getWindow(), getPads());
  if (!outputs)
    return failure();
  return giveImages(infer, tile->tilesOf(*outputs), getImage(), group);
}

LogicalResult FourierWeightsGradientOp::inferResults(ShapeContext &shapes,
                                                     SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto tile = tileOf(infer, getTile(), dilated(getKernel(), getDilations()));
  int64_t group = int64_t(getGroup());
  if (!tile || failed(checkPlanes(infer, *tile, group)))
    return failure();
  Dims x = infer.dims(0), dims{x[1]};
  for (int64_t size : getKernel())
    dims.push_back(infer.constant(size));
  dims.push_back(shapes.simplify(x[2] * group));
  return infer.give(infer.element(0), dims);
}

LogicalResult FourierConvOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto tile = tileOf(infer, getTile(), getWindow());
  if (!tile)
    return failure();
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0)});
  auto image = outputImage(infer, getWindow(), getPads());
  if (!image)
    return failure();
  Dims x = infer.dims(0), w = infer.dims(1), dims{x[0]};
  if (w.size() != 2 || infer.known(w[0]) != tile->numbers())
    return infer.error() << "(F5) w must have the tile's " << tile->numbers()
                         << " numbers for each channel";
  if (failed(infer.requireEqual(w[1], x.back(), "(F5)", "channels of x and w")) ||
      failed(infer.requireBias(2, x.back(), "(F6)")))
    return failure();
  for (int64_t size : *image)
    dims.push_back(infer.constant(size));
  dims.push_back(x.back());
  return infer.give(infer.element(0), dims);
}

} // namespace tensmith::graph
