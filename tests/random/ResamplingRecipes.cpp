// Reading images between their elements.
#include "tests/random/Generator.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

Operation *resize(Generator &g, StringRef name) {
  Type f32 = g.builder.getF32Type();
  const char *mode = g.random.of<const char *>({"nearest", "linear", "cubic"});
  Value x = g.like(
      f32, {g.size(1), g.size(g.between(1, 3)), g.size(g.between(2, 7)), g.size(g.between(2, 7))});
  const char *transform = g.random.of<const char *>(
      {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"});
  SmallVector<NamedAttribute> attributes{g.text("mode", mode),
                                         g.text("coordinate_transformation_mode", transform)};
  if (g.chance(0.2)) { // by scales, or to sizes, that the run tells
    Value scales = g.fresh(f32, {g.size(4)}, "positive");
    Value sizes = g.fresh(g.builder.getI64Type(), {g.size(4)}, "index:8");
    bool isScaled = g.chance(0.5);
    return g.create(name,
                    {x, g.none(), isScaled ? scales : g.none(), isScaled ? g.none() : sizes},
                    attributes);
  }
  if (g.chance(0.5))
    return g.create(name,
                    {x, g.none(),
                     g.reals(f32, {1, 1, double(g.between(1, 3)), g.chance(0.5) ? 0.5 : 2}),
                     g.none()},
                    attributes);
  auto channels = g.known(g.dims(x)[1]);
  Value bounds = g.none();
  if (mode[0] != 'c' && g.chance(0.3)) { // of a crop, which the run tells
    bounds = g.fresh(f32, {g.size(8)}, "positive");
    attributes[1] = g.text("coordinate_transformation_mode", "tf_crop_and_resize");
  }
  return g.create(
      name, {x, bounds, g.none(), g.integers({1, *channels, g.between(1, 9), g.between(1, 9)})},
      attributes);
}

Operation *gridSample(Generator &g, StringRef name) {
  Type f32 = g.builder.getF32Type();
  int64_t spatial = g.random.of({1, 2, 2, 3});
  Dims image{g.size(g.between(1, 2)), g.size(g.between(1, 3))}, grid{image[0]};
  for (int64_t dim = 0; dim < spatial; ++dim) {
    image.push_back(g.size(g.between(1, spatial == 3 ? 4 : 7)));
    grid.push_back(g.size(g.between(1, 5)));
  }
  grid.push_back(g.size(spatial));
  Value x = g.like(f32, image), positions = g.like(f32, grid);
  return g.create(
      name, {x, positions},
      {g.text("mode", g.random.of<const char *>({"linear", "linear", "cubic", "nearest"})),
       g.flag("align_corners", g.chance(0.5)),
       g.text("padding_mode", g.random.of<const char *>({"zeros", "border", "reflection"}))});
}

Operation *affineGrid(Generator &g, StringRef name) {
  int64_t batch = g.between(1, 3);
  Value theta = g.like(g.builder.getF32Type(), {g.size(batch), g.size(2), g.size(3)});
  return g.create(name, {theta, g.integers({batch, 2, g.between(1, 7), g.between(1, 7)})},
                  g.flag("align_corners", g.chance(0.5)));
}

Value drawRegions(Generator &g, int64_t count, bool numbered) {
  SmallVector<double> corners;
  for (int64_t i = 0; i < count; ++i) {
    if (numbered)
      corners.push_back(0);
    double left = double(g.between(0, 3)), top = double(g.between(0, 3));
    corners.append({left, top, left + double(g.between(1, 3)), top + double(g.between(1, 3))});
  }
  Value flat = g.reals(g.builder.getF32Type(), corners);
  return g.helper(g.createTyped(
      "reshape",
      g.shapes.tensorType(g.builder.getF32Type(), {g.size(count), g.size(numbered ? 5 : 4)}),
      flat));
}

Value drawPicture(Generator &g) {
  return g.like(g.builder.getF32Type(), {g.size(1), g.size(g.between(1, 3)), g.size(8), g.size(8)});
}

Operation *roiAlign(Generator &g, StringRef name) {
  int64_t count = g.between(1, 3);
  Value numbers = g.fresh(g.builder.getI64Type(), g.size(count), "index:1");
  Value x = drawPicture(g);
  Value regions = g.chance(0.5) ? drawRegions(g, count, false)
                                : g.like(g.element(x), {g.size(count), g.size(4)});
  return g.create(name, {x, regions, numbers},
                  {g.i64("output_height", g.between(1, 3)), g.i64("output_width", g.between(1, 3)),
                   g.i64("sampling_ratio", g.between(1, 3)),
                   g.text("mode", g.chance(0.7) ? "avg" : "max"),
                   g.text("coordinate_transformation_mode",
                          g.chance(0.5) ? "half_pixel" : "output_half_pixel")});
}

Operation *maxRoiPool(Generator &g, StringRef name) {
  return g.create(name, {drawPicture(g), drawRegions(g, g.between(1, 3), true)},
                  g.i64s("pooled_shape", {g.between(1, 3), g.between(1, 3)}));
}

} // namespace

ArrayRef<NamedRecipe> resamplingRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"resize", resize, 0.8},           {"grid_sample", gridSample, 0.4},
      {"affine_grid", affineGrid, 0.3},  {"roi_align", roiAlign, 0.3},
      {"max_roi_pool", maxRoiPool, 0.3},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
