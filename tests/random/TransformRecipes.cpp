// Parts of convolutions: by minimal filtering, by Fourier transforms, and the gradient of weights.
#include "base/Fourier.h"
#include "tests/random/Generator.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

using Sizes64 = SmallVector<int64_t>;

Sizes64 drawSizes(Generator &g, size_t count, int64_t low, int64_t high) {
  Sizes64 sizes;
  for (size_t i = 0; i < count; ++i)
    sizes.push_back(g.between(low, high));
  return sizes;
}

Value drawTensor(Generator &g, ArrayRef<AffineExpr> dims) {
  // An infinite number beside zeros is no number, and where those stand is each transform's matter.
  return g.finiteLike(g.builder.getF32Type(), dims);
}

Value drawTensor(Generator &g, ArrayRef<int64_t> sizes) {
  Dims dims;
  for (int64_t size : sizes)
    dims.push_back(g.size(size));
  return drawTensor(g, dims);
}

/// [N, sizes..., channels], perhaps of an open number of images.
Value drawImages(Generator &g, ArrayRef<int64_t> sizes, int64_t channels) {
  Dims dims{g.chance(0.4) ? g.drawDim() : g.size(g.between(1, 3))};
  for (int64_t size : sizes)
    dims.push_back(g.size(size));
  dims.push_back(g.size(channels));
  return drawTensor(g, dims);
}

Value drawBias(Generator &g, int64_t channels) {
  return g.chance(0.5) ? drawTensor(g, ArrayRef(channels)) : g.none();
}

// ---- the gradient of weights

Operation *convWeightsGradient(Generator &g, StringRef name) {
  size_t rank = size_t(g.between(1, 3));
  int64_t group = g.chance(0.7) ? 1 : g.between(2, 3), in = group * g.random.of({1, 2, 5}),
          out = group * g.random.of({1, 3, 8}), images = g.between(1, 3);
  Sizes64 kernel = drawSizes(g, rank, 1, 3), strides = drawSizes(g, rank, 1, 2),
          dilations = drawSizes(g, rank, 1, 2), pads = drawSizes(g, 2 * rank, 0, 2);
  Sizes64 x{images, in}, y{images, out};
  for (size_t dim = 0; dim < rank; ++dim) {
    int64_t span = (kernel[dim] - 1) * dilations[dim] + 1, size = span + g.between(0, 6);
    x.push_back(size);
    y.push_back((size + pads[dim] + pads[dim + rank] - span) / strides[dim] + 1);
  }
  return g.create(name, {drawTensor(g, x), drawTensor(g, y)},
                  {g.i64s("kernel", kernel), g.i64s("strides", strides), g.i64s("pads", pads),
                   g.i64s("dilations", dilations), g.i64("group", group)});
}

// ---- minimal filtering

Operation *winograd(Generator &g, StringRef name) {
  int64_t taps = 3, outputs = g.random.of({2, 2, 4}), size = outputs + taps - 1;
  int64_t channels = g.random.of({1, 3, 8, 17});
  SmallVector<NamedAttribute> attributes{g.i64("outputs", outputs), g.i64("taps", taps)};
  if (name == "winograd_weights")
    return g.create(name, drawTensor(g, {g.between(1, 9), channels, taps, taps}), attributes);
  Sizes64 image = drawSizes(g, 2, 3, 11);
  if (name == "winograd_input") {
    attributes.push_back(g.i64s("pads", drawSizes(g, 4, 0, 1)));
    return g.create(name, drawImages(g, image, channels), attributes);
  }
  int64_t tiles = g.between(1, 3);
  for (int64_t pixels : image)
    tiles *= (pixels - 1) / outputs + 1;
  attributes.push_back(g.i64s("image", image));
  return g.create(name, {drawTensor(g, {size * size, tiles, channels}), drawBias(g, channels)},
                  attributes);
}

// ---- Fourier transforms

struct Transform {
  FourierTile tile;
  Sizes64 sizes, kernel, dilations, window, pads;
  Sizes64 image, outputs; // along the image's dimensions
  int64_t group = 1, in = 1, out = 1, images = 1;

  int64_t planes() const { return tile.planes(kFourierThirds) * group; }
  int64_t tiles() const { return images * tile.tilesOf(outputs); }
};

std::optional<Transform> drawTransform(Generator &g) {
  Transform t;
  size_t rank = size_t(g.between(1, 2));
  t.kernel = drawSizes(g, rank, 2, 4);
  t.dilations = drawSizes(g, rank, 1, g.chance(0.3) ? 2 : 1);
  t.pads = drawSizes(g, 2 * rank, 0, 2);
  for (size_t dim = 0; dim < rank; ++dim) {
    t.window.push_back((t.kernel[dim] - 1) * t.dilations[dim] + 1);
    t.image.push_back(t.window[dim] + g.between(0, 12));
    t.outputs.push_back(t.image[dim] + t.pads[dim] + t.pads[dim + rank] - t.window[dim] + 1);
  }
  // Rows and columns of a line have no common factor.
  t.sizes = rank == 2 ? Sizes64{g.random.of({8, 9, 10}), g.random.of({8, 12})}
                      : Sizes64{g.random.of({3, 5}), g.random.of({4, 8})};
  t.group = g.chance(0.7) ? 1 : 2;
  t.in = t.group * g.random.of({1, 2, 9});
  t.out = t.group * g.random.of({1, 3, 8});
  t.images = g.between(1, 2);
  auto tile = FourierTile::of(t.sizes, t.window);
  if (!tile)
    return std::nullopt;
  t.tile = *tile;
  return t;
}

Sizes64 joined(std::initializer_list<ArrayRef<int64_t>> parts) {
  Sizes64 all;
  for (ArrayRef<int64_t> part : parts)
    llvm::append_range(all, part);
  return all;
}

/// What transforms are made of: pixels and weights.
Operation *fourierForward(Generator &g, StringRef name) {
  auto t = drawTransform(g);
  if (!t)
    return nullptr;
  NamedAttribute tile = g.i64s("tile", t->sizes), window = g.i64s("window", t->window),
                 dilations = g.i64s("dilations", t->dilations), group = g.i64("group", t->group);
  if (name == "fourier_input")
    return g.create(name, drawImages(g, t->image, t->in),
                    {tile, window, g.i64s("pads", t->pads), group});
  if (name == "fourier_gradient")
    return g.create(name, drawImages(g, t->outputs, t->out), {tile, window, group});
  if (name == "fourier_weights")
    return g.create(name, drawTensor(g, joined({t->out, t->in / t->group, t->kernel})),
                    {tile, dilations, group});
  return g.create(name, drawTensor(g, joined({t->in / t->group, t->kernel, t->out})),
                  {tile, dilations, group});
}

/// What is made of the planes' products.
Operation *fourierInverse(Generator &g, StringRef name) {
  auto t = drawTransform(g);
  if (!t)
    return nullptr;
  NamedAttribute tile = g.i64s("tile", t->sizes), window = g.i64s("window", t->window),
                 group = g.i64("group", t->group);
  int64_t in = t->in / t->group, out = t->out / t->group;
  if (name == "fourier_weights_gradient")
    return g.create(name, drawTensor(g, {t->planes(), in, out}),
                    {tile, g.i64s("dilations", t->dilations), g.i64s("kernel", t->kernel), group});
  if (name == "fourier_image_gradient")
    return g.create(name, drawTensor(g, {t->planes(), t->tiles(), in}),
                    {tile, window, g.i64s("image", t->image), g.i64s("pads", t->pads), group});
  return g.create(name, {drawTensor(g, {t->planes(), t->tiles(), out}), drawBias(g, t->out)},
                  {tile, window, g.i64s("image", t->outputs), group});
}

Operation *fourierConv(Generator &g, StringRef name) {
  auto t = drawTransform(g);
  if (!t)
    return nullptr;
  Value weights = drawTensor(g, {t->tile.planes(kFourierPairs), t->in});
  return g.create(name, {drawImages(g, t->image, t->in), weights, drawBias(g, t->in)},
                  {g.i64s("tile", t->sizes), g.i64s("window", t->window), g.i64s("pads", t->pads)});
}

} // namespace

ArrayRef<NamedRecipe> transformRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"conv_weights_gradient", convWeightsGradient, 0.7},
      {"winograd_input", winograd, 0.2},
      {"winograd_weights", winograd, 0.2},
      {"winograd_output", winograd, 0.2},
      {"fourier_input", fourierForward, 0.2},
      {"fourier_weights", fourierForward, 0.2},
      {"fourier_changing_weights", fourierForward, 0.2},
      {"fourier_gradient", fourierForward, 0.2},
      {"fourier_output", fourierInverse, 0.2},
      {"fourier_image_gradient", fourierInverse, 0.2},
      {"fourier_weights_gradient", fourierInverse, 0.2},
      {"fourier_conv", fourierConv, 0.2},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
