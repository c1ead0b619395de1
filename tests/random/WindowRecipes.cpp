// Convolutions and pooling, in one to three spatial dimensions.
#include "tests/random/Generator.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

struct Windows {
  SmallVector<int64_t> kernel, strides, pads, dilations;
};

/// Windows that fit into every size of x from dimension `first` on.
Windows drawWindows(Generator &g, ArrayRef<AffineExpr> sizes) {
  Windows w;
  SmallVector<int64_t> high;
  bool square = g.chance(0.6);
  for (AffineExpr size : sizes) {
    bool same = square && !w.kernel.empty() && g.least(size) >= g.least(sizes[0]);
    int64_t dilation = g.chance(0.8) ? 1 : 2, room = std::max<int64_t>(g.least(size), 1);
    int64_t kernel = same ? w.kernel[0] : g.random.of({1, 2, 3, 3, 5, 7});
    while ((kernel - 1) * dilation + 1 > room && kernel > 1)
      --kernel;
    w.kernel.push_back(kernel);
    w.dilations.push_back(dilation);
    w.strides.push_back(same ? w.strides[0] : g.random.of({1, 1, 2, 3}));
    int64_t low = g.between(0, kernel / 2);
    w.pads.push_back(low);
    high.push_back(g.chance(0.7) ? low : g.between(0, kernel / 2));
  }
  w.pads.append(high);
  return w;
}

Value drawImage(Generator &g, Type type) {
  if (g.chance(0.35))
    return g.tensor(3, 5, type);
  int64_t spatial = g.random.of({1, 2, 2, 2, 3});
  Dims dims{g.chance(0.5) ? g.size(1) : g.drawDim(), g.size(g.random.of({1, 2, 3, 4, 8, 16, 17}))};
  for (int64_t i = 0; i < spatial; ++i)
    dims.push_back(g.chance(0.2) ? g.drawDim() : g.size(g.random.of({1, 3, 5, 7, 8, 9, 14, 16})));
  return g.like(type, dims);
}

NamedAttribute layout(Generator &g, bool channelsLast) {
  return g.text("layout", channelsLast ? "channels_last" : "channels_first");
}

Operation *conv(Generator &g, StringRef name) {
  Type type = g.chance(0.7) ? Type(g.drawFloat()) : g.drawElement();
  Value x = drawImage(g, type);
  Dims dims = g.dims(x);
  bool last = name == "conv" && g.chance(0.2), transposed = name == "conv_transpose";
  auto channels = g.known(dims[last ? dims.size() - 1 : 1]);
  if (!channels || *channels == 0)
    return nullptr;
  auto spatial = ArrayRef(dims).drop_front(last ? 1 : 2).drop_back(last ? 1 : 0);
  Windows w = drawWindows(g, spatial);
  SmallVector<int64_t> divisors{1, 1, *channels};
  for (int64_t d = 2; d < *channels; ++d)
    if (*channels % d == 0)
      divisors.push_back(d);
  int64_t group = g.random.among(divisors), perGroup = *channels / group;
  int64_t outputs = g.random.of({1, 2, 3, 8, 16, 17}) * (group > 8 ? 1 : 1);
  outputs = group == 1 ? outputs : group * g.between(1, 2);
  Dims weights = transposed ? Dims{g.size(*channels), g.size(outputs / group)}
                            : Dims{g.size(outputs), g.size(perGroup)};
  for (int64_t size : w.kernel)
    weights.push_back(g.size(size));
  SmallVector<NamedAttribute> attributes{g.i64s("strides", w.strides), g.i64s("pads", w.pads),
                                         g.i64s("dilations", w.dilations), g.i64("group", group)};
  if (transposed)
    attributes.push_back(g.i64s("output_padding", SmallVector<int64_t>(w.kernel.size(), 0)));
  else
    attributes.push_back(layout(g, last));
  Value bias = g.chance(0.5) ? g.like(type, g.size(outputs)) : g.none();
  // An infinite weight beside the image is multiplied by zeros.
  Value weight = g.finiteLike(type, weights);
  return g.create(name, {x, weight, bias}, attributes);
}

/// Of the cotangent of a convolution's result, which has the positions of the window.
Operation *convWeightsGradient(Generator &g, StringRef name) {
  Type type = g.drawFloat();
  Value x = drawImage(g, type);
  Dims dims = g.dims(x);
  auto channels = g.known(dims[1]);
  if (!channels || *channels == 0)
    return nullptr;
  Windows w = drawWindows(g, ArrayRef(dims).drop_front(2));
  int64_t group = g.chance(0.3) ? *channels : 1, spatial = g.rank(x) - 2;
  Dims result{dims[0], g.size(group * g.random.of({1, 2, 5, 16}))};
  for (int64_t dim = 0; dim < spatial; ++dim) {
    auto at = size_t(dim), end = size_t(dim + spatial);
    int64_t reach = (w.kernel[at] - 1) * w.dilations[at] + 1;
    AffineExpr first = dims[at + 2] + (w.pads[at] + w.pads[end] - reach);
    result.push_back(g.shapes.simplify(first.floorDiv(w.strides[at]) + 1));
  }
  return g.create(name, {x, g.finiteLike(type, result)},
                  {g.i64s("kernel", w.kernel), g.i64s("strides", w.strides), g.i64s("pads", w.pads),
                   g.i64s("dilations", w.dilations), g.i64("group", group)});
}

Operation *deformConv(Generator &g, StringRef name) {
  Type type = g.builder.getF32Type();
  int64_t parts = g.between(1, 2), group = g.between(1, 2), stride = g.between(1, 2);
  int64_t pad = g.between(0, 1), dilation = g.between(1, 2), outputs = 2 * g.between(1, 2);
  auto positions = [&](int64_t size) { // of windows of two
    return g.size((size + 2 * pad - dilation - 1) / stride + 1);
  };
  AffineExpr n = g.size(g.between(1, 2)), height = positions(5), width = positions(7);
  Value x = g.like(type, {n, g.size(4), g.size(5), g.size(7)});
  Value w = g.like(type, {g.size(outputs), g.size(4 / group), g.size(2), g.size(2)});
  Value offset = g.like(type, {n, g.size(8 * parts), height, width});
  Value bias = g.chance(0.5) ? g.like(type, g.size(outputs)) : g.none();
  Value mask = g.chance(0.5) ? g.like(type, {n, g.size(4 * parts), height, width}) : g.none();
  return g.create(name, {x, w, offset, bias, mask},
                  {g.i64s("strides", {stride, stride}), g.i64s("pads", {pad, pad, pad, pad}),
                   g.i64s("dilations", {dilation, dilation}), g.i64("group", group),
                   g.i64("offset_group", parts)});
}

Operation *pool(Generator &g, StringRef name) {
  Value x = drawImage(g, g.chance(0.8) ? Type(g.drawFloat()) : g.drawElement());
  Dims dims = g.dims(x);
  bool last = name != "max_pool_indices" && g.chance(0.2);
  Windows w = drawWindows(g, ArrayRef(dims).drop_front(last ? 1 : 2).drop_back(last ? 1 : 0));
  SmallVector<NamedAttribute> attributes{g.i64s("kernel", w.kernel), g.i64s("strides", w.strides),
                                         g.i64s("pads", w.pads), g.i64s("dilations", w.dilations),
                                         g.flag("ceil_mode", g.chance(0.2))};
  if (name != "max_pool_indices")
    attributes.push_back(layout(g, last));
  if (name == "average_pool")
    attributes.push_back(g.flag("count_include_pad", g.chance(0.5)));
  if (name == "lp_pool")
    attributes.push_back(g.i64("p", g.between(1, 3)));
  return g.create(name, x, attributes);
}

Operation *maxUnpool(Generator &g, StringRef name) {
  Type type = g.builder.getF32Type();
  Dims dims{g.size(1), g.size(g.between(1, 3)), g.size(2 * g.between(1, 4)),
            g.size(2 * g.between(1, 4))};
  Value x = g.fresh(type, dims);
  SmallVector<NamedAttribute> window{g.i64s("kernel", {2, 2}), g.i64s("strides", {2, 2}),
                                     g.i64s("pads", {0, 0, 0, 0})},
      pooled = window;
  pooled.push_back(g.i64s("dilations", {1, 1}));
  Value y = g.helper(g.create("max_pool", x, pooled));
  Value indices = g.helper(g.create("max_pool_indices", x, pooled));
  return g.create(name, {y, indices, g.none()}, window);
}

Operation *col2im(Generator &g, StringRef name) {
  int64_t image[] = {g.between(3, 7), g.between(3, 7)}, block[2], stride[2], dilation[2], pads[4];
  int64_t places = 1;
  for (int dim : {0, 1}) {
    block[dim] = g.between(1, 2);
    stride[dim] = g.between(1, 2);
    dilation[dim] = g.between(1, 2);
    pads[dim] = g.between(0, 1);
    pads[dim + 2] = g.between(0, 1);
    int64_t span = (block[dim] - 1) * dilation[dim] + 1;
    places *= (image[dim] + pads[dim] + pads[dim + 2] - span) / stride[dim] + 1;
  }
  Value x = g.like(g.drawFloat(), {g.size(g.between(1, 2)),
                                   g.size(block[0] * block[1] * g.between(1, 3)), g.size(places)});
  return g.create(name, {x, g.integers(image), g.integers(block)},
                  {g.i64s("dilations", dilation), g.i64s("pads", pads), g.i64s("strides", stride)});
}

} // namespace

ArrayRef<NamedRecipe> windowRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"conv", conv, 6},
      {"conv_transpose", conv, 0.7},
      {"conv_weights_gradient", convWeightsGradient, 0},
      {"deform_conv", deformConv, 0.2},
      {"max_pool", pool, 1.5},
      {"average_pool", pool, 1.5},
      {"lp_pool", pool, 0.5},
      {"max_pool_indices", pool, 0.4},
      {"max_unpool", maxUnpool, 0.3},
      {"col2im", col2im, 0.3},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
