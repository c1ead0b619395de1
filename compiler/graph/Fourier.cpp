// Convolution by Fourier transforms: shape functions of its parts (records in ConvolutionOps.td).
#include "base/Fourier.h"
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

/// Outputs along the dimensions of the image that is operand 0; none where (F1) does not hold.
std::optional<SmallVector<int64_t>> outputImage(Inference &infer, ArrayRef<int64_t> window,
                                                ArrayRef<int64_t> pads) {
  Dims x = infer.dims(0);
  bool fits = x.size() == window.size() + 2 && pads.size() == 2 * window.size();
  SmallVector<int64_t> outputs;
  for (size_t dim = 0; fits && dim < window.size(); ++dim) {
    auto size = infer.known(x[dim + 1]);
    fits = size && *size > 0 && pads[dim] >= 0 && pads[dim + window.size()] >= 0;
    if (fits)
      outputs.push_back(*size + pads[dim] + pads[dim + window.size()] - window[dim] + 1);
    fits = fits && outputs.back() > 0;
  }
  if (fits)
    return outputs;
  infer.error() << "(F1) x must have one or two dimensions of known size that the window fits into";
  return std::nullopt;
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
  auto channels = infer.known(x.back());
  int64_t group = int64_t(getGroup());
  if (group < 1 || (channels && *channels % group != 0))
    return infer.error() << "(F3) the channels are not divisible by " << group << " groups";
  return infer.give(infer.element(0),
                    {infer.constant(tile->planes(kFourierThirds) * group),
                     x[0] * tile->tilesOf(*image), shapes.simplify(x.back().floorDiv(group))});
}

LogicalResult FourierWeightsOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0)});
  Dims w = infer.dims(0);
  SmallVector<int64_t> window;
  for (size_t dim = 2; dim < w.size() && dim - 2 < getDilations().size(); ++dim)
    if (auto size = infer.known(w[dim]))
      window.push_back(getDilations()[dim - 2] * (*size - 1) + 1);
  if (w.size() != getDilations().size() + 2 || window.size() + 2 != w.size())
    return infer.error() << "(F2) w must have a window of known size";
  auto tile = tileOf(infer, getTile(), window);
  if (!tile)
    return failure();
  if (getPairs())
    return infer.give(infer.element(0), {infer.constant(tile->numbers()), w[0]});
  auto channels = infer.known(w[0]);
  int64_t group = int64_t(getGroup());
  if (group < 1 || (channels && *channels % group != 0))
    return infer.error() << "(F3) the channels are not divisible by " << group << " groups";
  return infer.give(infer.element(0), {infer.constant(tile->planes(kFourierThirds) * group), w[1],
                                       shapes.simplify(w[0].floorDiv(group))});
}

LogicalResult FourierOutputOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  auto tile = tileOf(infer, getTile(), getWindow());
  if (!tile)
    return failure();
  if (infer.unranked() || failed(infer.requireRank(0, 3, 3, "x")))
    return infer.error() << "(F4) x must be of rank 3";
  Dims x = infer.dims(0);
  ArrayRef<int64_t> image = getImage();
  int64_t group = int64_t(getGroup());
  if (group < 1 || image.size() != getWindow().size() ||
      llvm::any_of(
          image, [](int64_t size) { return size <= 0; }) ||
      infer.known(x[0]) != tile->planes(kFourierThirds) * group)
    return infer.error() << "(F4) x must have each plane of the spectra for each group, and the "
                            "image as many dimensions as the window";
  int64_t tiles = tile->tilesOf(image);
  auto count = infer.known(x[1]);
  if (count && *count % tiles != 0)
    return infer.error() << "(F4) " << *count << " tiles are not those of whole images, of "
                         << tiles;
  Dims dims{shapes.simplify(x[1].floorDiv(tiles))};
  for (int64_t size : image)
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
  for (int64_t size : *image)
    dims.push_back(infer.constant(size));
  dims.push_back(x.back());
  return infer.give(infer.element(0), dims);
}

} // namespace tensmith::graph
