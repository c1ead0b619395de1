// Convolutions' parts that the compiler makes for itself: transforms around the products of
// Winograd's and of Fourier's algorithms, in all passes of training. Asked for by their names
// alone.
#include "base/Fourier.h"
#include "base/ToomCook.h"
#include "tests/random/Generator.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

/// A convolution of stride 1 on channels-last images whose window is known, cut into tiles.
struct TiledLayer {
  FourierTile made;
  SmallVector<int64_t> tile, kernel, dilations, window, pads, image, outputs;
  int64_t group, perGroup, outputsPerGroup, tiles; // tiles: of one image
  AffineExpr images;

  int64_t planes() const { return made.planes(kFourierThirds) * group; }
  SmallVector<NamedAttribute> attributes(Generator &g) const {
    return {g.i64s("tile", tile), g.i64s("window", window), g.i64("group", group)};
  }
};

std::optional<TiledLayer> drawTiled(Generator &g) {
  TiledLayer layer;
  bool isLine = g.chance(0.3);
  size_t spatial = isLine ? 1 : 2;
  for (size_t dim = 0; dim < spatial; ++dim) {
    layer.kernel.push_back(g.random.of({1, 2, 3, 5, 7}));
    layer.dilations.push_back(g.random.of({1, 1, 2}));
    layer.window.push_back((layer.kernel[dim] - 1) * layer.dilations[dim] + 1);
    layer.image.push_back(g.between(1, 14));
  }
  for (int end : {0, 1})
    for (size_t dim = 0; dim < spatial; ++dim)
      layer.pads.push_back(end == 0 || g.chance(0.5) ? layer.window[dim] / 2
                                                     : g.between(0, layer.window[dim] - 1));
  constexpr int64_t kTiles[][2] = {{8, 8}, {12, 9}, {16, 12}, {1, 24}, {24, 1}, {5, 6}};
  constexpr int64_t kLines[][2] = {{1, 32}, {15, 8}, {5, 4}};
  const auto &tile = isLine ? g.random.among(kLines) : g.random.among(kTiles);
  layer.tile.assign({tile[0], tile[1]});
  auto made = FourierTile::of(layer.tile, layer.window);
  for (size_t dim = 0; dim < spatial; ++dim)
    layer.outputs.push_back(layer.image[dim] + layer.pads[dim] + layer.pads[dim + spatial] -
                            layer.window[dim] + 1);
  if (!made || llvm::any_of(layer.outputs, [](int64_t count) { return count < 1; }))
    return std::nullopt;
  layer.made = *made;
  layer.tiles = made->tilesOf(layer.outputs);
  layer.group = g.random.of({1, 1, 2, 3});
  layer.perGroup = g.random.of({1, 2, 3, 8, 17});
  layer.outputsPerGroup = g.random.of({1, 2, 5, 16});
  layer.images = g.size(g.between(1, 3));
  return layer;
}

Dims with(Generator &g, AffineExpr first, ArrayRef<int64_t> sizes, int64_t last) {
  Dims dims{first};
  for (int64_t size : sizes)
    dims.push_back(g.size(size));
  dims.push_back(g.size(last));
  return dims;
}

/// What has the layer's planes, for `rows` and `columns` of each product.
Value drawPlanes(Generator &g, const TiledLayer &layer, AffineExpr rows, int64_t columns) {
  return g.finiteLike(g.builder.getF32Type(), {g.size(layer.planes()), rows, g.size(columns)});
}

Operation *fourierOfImage(Generator &g, StringRef name) {
  auto layer = drawTiled(g);
  if (!layer)
    return nullptr;
  bool isInput = name == "fourier_input";
  auto attributes = layer->attributes(g);
  if (isInput)
    attributes.push_back(g.i64s("pads", layer->pads));
  Value x = g.finiteLike(g.builder.getF32Type(),
                         with(g, layer->images, isInput ? layer->image : layer->outputs,
                              layer->group * layer->perGroup));
  return g.create(name, x, attributes);
}

Operation *fourierToImage(Generator &g, StringRef name) {
  auto layer = drawTiled(g);
  if (!layer)
    return nullptr;
  bool isOutput = name == "fourier_output";
  auto attributes = layer->attributes(g);
  attributes.push_back(g.i64s("image", isOutput ? layer->outputs : layer->image));
  if (!isOutput)
    attributes.push_back(g.i64s("pads", layer->pads));
  SmallVector<Value> operands{drawPlanes(g, *layer, layer->images * layer->tiles, layer->perGroup)};
  if (isOutput)
    operands.push_back(
        g.chance(0.5) ? g.finiteLike(g.builder.getF32Type(), g.size(layer->group * layer->perGroup))
                      : g.none());
  return g.create(name, operands, attributes);
}

/// Of weights that never change only constants have spectra.
Operation *fourierOfWeights(Generator &g, StringRef name) {
  auto layer = drawTiled(g);
  if (!layer)
    return nullptr;
  bool isLast = name == "fourier_changing_weights"; // its outputs
  Type f32 = g.builder.getF32Type();
  int64_t outputs = layer->group * layer->outputsPerGroup;
  SmallVector<NamedAttribute> attributes{g.i64s("tile", layer->tile),
                                         g.i64s("dilations", layer->dilations)};
  if (!isLast && g.chance(0.3)) { // pairs, of windows of one channel
    Dims w = with(g, g.size(outputs), 1, layer->kernel.front());
    if (layer->kernel.size() > 1)
      w.push_back(g.size(layer->kernel.back()));
    attributes.push_back(g.flag("pairs", true));
    return g.create(name, g.fresh(f32, w, "small", /*constant=*/true), attributes);
  }
  attributes.push_back(g.i64("group", layer->group));
  if (isLast)
    return g.create(name,
                    g.finiteLike(f32, with(g, g.size(layer->perGroup), layer->kernel, outputs)),
                    attributes);
  Dims w{g.size(outputs), g.size(layer->perGroup)};
  for (int64_t size : layer->kernel)
    w.push_back(g.size(size));
  return g.create(name, g.fresh(f32, w, "small", /*constant=*/true), attributes);
}

Operation *fourierWeightsGradient(Generator &g, StringRef name) {
  auto layer = drawTiled(g);
  if (!layer)
    return nullptr;
  Value x = drawPlanes(g, *layer, g.size(layer->perGroup), layer->outputsPerGroup);
  return g.create(name, x,
                  {g.i64s("tile", layer->tile), g.i64s("dilations", layer->dilations),
                   g.i64s("kernel", layer->kernel), g.i64("group", layer->group)});
}

Operation *fourierConv(Generator &g, StringRef name) {
  auto layer = drawTiled(g);
  if (!layer)
    return nullptr;
  Type f32 = g.builder.getF32Type();
  AffineExpr channels = g.size(layer->perGroup);
  Value x = g.finiteLike(f32, with(g, layer->images, layer->image, layer->perGroup));
  Value w = g.finiteLike(f32, {g.size(layer->made.numbers()), channels});
  return g.create(
      name, {x, w, g.chance(0.5) ? g.finiteLike(f32, channels) : g.none()},
      {g.i64s("tile", layer->tile), g.i64s("window", layer->window), g.i64s("pads", layer->pads)});
}

struct WinogradLayer {
  int64_t outputs, taps, frequencies;
  SmallVector<NamedAttribute> attributes;
};

std::optional<WinogradLayer> drawWinograd(Generator &g) {
  WinogradLayer layer{g.random.of({2, 4, 6}), g.random.of({3, 3, 5}), 0, {}};
  if (!hasToomCook(layer.outputs, layer.taps))
    return std::nullopt;
  int64_t size = layer.outputs + layer.taps - 1;
  layer.frequencies = size * size;
  layer.attributes = {g.i64("outputs", layer.outputs), g.i64("taps", layer.taps)};
  return layer;
}

Operation *winogradInput(Generator &g, StringRef name) {
  auto layer = drawWinograd(g);
  if (!layer)
    return nullptr;
  SmallVector<int64_t> pads;
  for (int end = 0; end < 4; ++end)
    pads.push_back(g.between(0, layer->taps / 2));
  AffineExpr height = g.size(g.between(layer->taps, 13)), width = g.size(g.between(layer->taps, 9));
  layer->attributes.push_back(g.i64s("pads", pads));
  return g.create(name,
                  g.finiteLike(g.builder.getF32Type(), {g.size(g.between(1, 3)), height, width,
                                                        g.size(g.random.of({1, 3, 8, 17}))}),
                  layer->attributes);
}

Operation *winogradWeights(Generator &g, StringRef name) {
  auto layer = drawWinograd(g);
  if (!layer)
    return nullptr;
  AffineExpr taps = g.size(layer->taps);
  return g.create(
      name,
      g.finiteLike(g.builder.getF32Type(),
                   {g.size(g.random.of({1, 3, 16})), g.size(g.random.of({1, 2, 8})), taps, taps}),
      layer->attributes);
}

Operation *winogradOutput(Generator &g, StringRef name) {
  auto layer = drawWinograd(g);
  if (!layer)
    return nullptr;
  Type f32 = g.builder.getF32Type();
  int64_t image[] = {g.between(1, 13), g.between(1, 9)};
  int64_t tiles = llvm::divideCeil(image[0], layer->outputs) *
                  llvm::divideCeil(image[1], layer->outputs) * g.between(1, 3);
  AffineExpr channels = g.size(g.random.of({1, 3, 8, 17}));
  Value x = g.finiteLike(f32, {g.size(layer->frequencies), g.size(tiles), channels});
  layer->attributes.push_back(g.i64s("image", image));
  return g.create(name, {x, g.chance(0.5) ? g.finiteLike(f32, channels) : g.none()},
                  layer->attributes);
}

} // namespace

ArrayRef<NamedRecipe> transformRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"fourier_input", fourierOfImage, 0},
      {"fourier_gradient", fourierOfImage, 0},
      {"fourier_output", fourierToImage, 0},
      {"fourier_image_gradient", fourierToImage, 0},
      {"fourier_weights", fourierOfWeights, 0},
      {"fourier_changing_weights", fourierOfWeights, 0},
      {"fourier_weights_gradient", fourierWeightsGradient, 0},
      {"fourier_conv", fourierConv, 0},
      {"winograd_input", winogradInput, 0},
      {"winograd_weights", winogradWeights, 0},
      {"winograd_output", winogradOutput, 0},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
