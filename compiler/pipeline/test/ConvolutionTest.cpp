// Convolutions as the contraction template's, the depthwise template's and plain loops' work: one
// to three dimensions, windows with strides, gaps and borders of any kind, groups, few channels.
#include "compiler/pipeline/test/TemplateCase.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads, sizes;
};

/// A window of so many dimensions that fits into the sizes drawn with it.
Window drawWindow(TemplateCase &c, int64_t rank) {
  Window w;
  std::vector<int64_t> high;
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t kernel = rank == 3 ? c.among({1, 2, 3}) : c.among({1, 1, 2, 3, 3, 5, 7});
    int64_t dilation = c.among({1, 1, 1, 2}), extent = (kernel - 1) * dilation + 1;
    w.kernel.push_back(kernel);
    w.dilations.push_back(dilation);
    w.strides.push_back(c.among({1, 1, 2, 3}));
    w.pads.push_back(c.chance(50) ? (extent - 1) / 2 : c.between(0, extent - 1));
    high.push_back(c.chance(50) ? w.pads.back() : c.between(0, extent - 1));
    int64_t least = std::max<int64_t>(1, extent - w.pads.back() - high.back());
    w.sizes.push_back(least + (rank == 3 ? c.between(0, 6) : c.between(0, 18)));
  }
  w.pads.insert(w.pads.end(), high.begin(), high.end());
  return w;
}

Value convolution(TemplateCase &c, const Window &w, Value x, Value weights, int64_t group) {
  Value bias = c.chance(60) ? c.constant(c.type(x), {c.shape(weights)[0]}) : c.none();
  return c.op("conv", {x, weights, bias},
              {c.i64s("strides", w.strides), c.i64s("pads", w.pads),
               c.i64s("dilations", w.dilations), c.i64("group", group)});
}

/// What networks have behind a convolution, all of it exact.
Value epilogue(TemplateCase &c, Value y, const Dims &leading) {
  if (!y)
    return y;
  DataType type = c.type(y);
  Shape shape = c.shape(y), channel(shape.size() - 1, 1);
  channel[0] = shape[1];
  if (c.chance(30))
    y = c.op("mul", {y, c.constant(type, channel)});
  if (c.chance(40)) {
    Dims dims = dimsOf(shape);
    std::copy(leading.begin(), leading.end(), dims.begin());
    y = c.op("add", {c.input(type, dims), y});
  }
  if (c.chance(50))
    y = c.op("max", {y, c.scalar(type, 0)});
  return y;
}

Shape weightsShape(const Window &w, int64_t outputs, int64_t inputs) {
  Shape shape{outputs, inputs};
  shape.insert(shape.end(), w.kernel.begin(), w.kernel.end());
  return shape;
}

Dims inputDims(const Window &w, Dim batch, int64_t channels) {
  Dims dims{batch, channels};
  dims.insert(dims.end(), w.sizes.begin(), w.sizes.end());
  return dims;
}

/// Those that have a tile of their own: more taps than these are products of matrices.
bool hasSmallGroups(DataType type, const Window &w, int64_t group, int64_t inputs,
                    int64_t outputs) {
  constexpr int64_t kMostProducts = 160, kMostTaps = 49;
  int64_t taps = 1;
  for (int64_t size : w.kernel)
    taps *= size;
  bool isPower = inputs == 2 || inputs == 4 || inputs == 8 || inputs == 16;
  return type == DataType::F32 && group > 1 && inputs == outputs && isPower && taps <= kMostTaps &&
         taps * inputs <= kMostProducts;
}

/// Whether the window has taps at an end that see nothing but padding: without them it may be a
/// smaller one.
bool seesPaddingAlone(const Window &w) {
  for (size_t dim = 0, rank = w.kernel.size(); dim < rank; ++dim) {
    int64_t low = w.pads[dim], span = (w.kernel[dim] - 1) * w.dilations[dim],
            outputs = (w.sizes[dim] + low + w.pads[rank + dim] - span - 1) / w.strides[dim] + 1;
    if ((outputs - 1) * w.strides[dim] < low || span - low >= w.sizes[dim])
      return true;
  }
  return false;
}

/// The kind of kernel that a convolution with groups should be; empty where it may be either.
StringRef kindOf(DataType type, const Window &w, int64_t group, int64_t inputs, int64_t outputs) {
  if (hasSmallGroups(type, w, group, inputs, outputs))
    return "depthwise";
  return seesPaddingAlone(w) ? "" : "contraction";
}

struct ConvCase {
  DataType type;
  int64_t rank;
  int count;
};

class Convolution : public testing::TestWithParam<ConvCase> {
protected:
  unsigned seed(int number) const {
    return 10000 * unsigned(GetParam().rank) + 100 * unsigned(GetParam().type) + unsigned(number);
  }
};

// Fails if a tap beyond a border counts, a group reads its neighbour's channels, or a row of the
// image is cut off wrongly.
TEST_P(Convolution, Dense) {
  auto [type, rank, count] = GetParam();
  for (int i = 0; i < count; ++i) {
    TemplateCase c(seed(i));
    Window w = drawWindow(c, rank);
    int64_t group = c.among({1, 1, 1, 2, 3}), inputs = c.among({1, 2, 3, 4, 5, 7, 8, 9, 16, 17}),
            outputs = c.among({1, 2, 3, 5, 7, 8, 9, 16, 17, 33});
    // One input channel in each of several groups would be depthwise.
    inputs += group > 1 && inputs == 1;
    Value x = c.input(type, inputDims(w, c.between(1, 3), inputs * group));
    Value weights = c.constant(type, weightsShape(w, outputs * group, inputs));
    Value y = convolution(c, w, x, weights, group);
    ASSERT_NO_FATAL_FAILURE(c.check(epilogue(c, y, {}), kindOf(type, w, group, inputs, outputs)));
  }
}

// Fails if a lane reads another group's channels, a vector that is cut off reads or writes what
// lies behind, or a group of several vectors, or of less than one, takes another's weights.
TEST_P(Convolution, SmallGroups) {
  auto [type, rank, count] = GetParam();
  for (int i = 0; i < count; ++i) {
    TemplateCase c(seed(80 + i));
    Window w = drawWindow(c, rank);
    int64_t group = c.among({2, 3, 4, 5, 7, 9, 16}), channels = c.among({2, 4, 8, 16});
    Value x = c.input(type, inputDims(w, c.between(1, 3), channels * group));
    Value weights = c.constant(type, weightsShape(w, channels * group, channels));
    Value y = convolution(c, w, x, weights, group);
    ASSERT_NO_FATAL_FAILURE(
        c.check(epilogue(c, y, {}), kindOf(type, w, group, channels, channels)));
  }
}

// Fails if a channel's taps, a border or the stride between windows is wrong, or a multiplier's
// copies of a channel are put in the wrong order.
TEST_P(Convolution, Depthwise) {
  auto [type, rank, count] = GetParam();
  for (int i = 0; i < count / 2; ++i) {
    TemplateCase c(seed(50 + i));
    Window w = drawWindow(c, rank);
    int64_t channels = c.among({2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64}),
            multiplier = c.among({1, 1, 1, 2, 3});
    Value x = c.input(type, inputDims(w, c.between(1, 3), channels));
    Value weights = c.constant(type, weightsShape(w, channels * multiplier, 1));
    Value y = convolution(c, w, x, weights, channels);
    bool own = type == DataType::F32 && multiplier == 1;
    ASSERT_NO_FATAL_FAILURE(c.check(epilogue(c, y, {}), own ? "depthwise" : ""));
  }
}

INSTANTIATE_TEST_SUITE_P(
    TypesAndRanks, Convolution,
    testing::Values(ConvCase{DataType::F32, 1, 10}, ConvCase{DataType::F32, 2, 24},
                    ConvCase{DataType::F32, 3, 8}, ConvCase{DataType::F64, 2, 4},
                    ConvCase{DataType::F16, 2, 4}, ConvCase{DataType::BF16, 2, 4}),
    [](const auto &info) {
      return std::string(name(info.param.type)) + "Rank" + std::to_string(info.param.rank);
    });

// Fails if a size that only the run knows goes into a border, a count of windows or an offset.
TEST(ConvolutionOfSymbols, BatchHeightAndWidth) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    TemplateCase c(40000 + seed);
    Window w = drawWindow(c, 2);
    bool depthwise = seed % 3 == 0, grouped = seed % 3 == 1;
    int64_t inputs = c.among({1, 3, 8, 17}), outputs = c.among({5, 16, 33}), group = 1;
    inputs += depthwise && inputs == 1;
    if (grouped)
      group = c.among({3, 6}), inputs = outputs = 4 * group;
    if (depthwise)
      group = inputs, outputs = inputs;
    Value x = c.input(DataType::F32, {"batch", inputs, "height", "width"});
    Value weights = c.constant(DataType::F32, weightsShape(w, outputs, inputs / group));
    Value y = convolution(c, w, x, weights, group);
    y = c.op("max", {y, c.scalar(DataType::F32, 0)});
    std::vector<Sizes> runs;
    for (int64_t extra : {0, 1, 6, 13})
      runs.push_back({{"batch", 1 + extra % 3},
                      {"height", w.sizes[0] + extra},
                      {"width", w.sizes[1] + 2 * extra}});
    bool small = hasSmallGroups(DataType::F32, w, group, inputs / group, outputs / group);
    const char *kind = depthwise ? "depthwise" : small ? "depthwise" : "contraction";
    ASSERT_NO_FATAL_FAILURE(c.check(y, kind, 0, runs));
  }
}

// Pooling is done by loops over elements: windows at borders have fewer elements.
TEST(Pooling, Windows) {
  for (unsigned seed = 0; seed < 14; ++seed) {
    TemplateCase c(41000 + seed);
    int64_t rank = c.between(1, 2);
    Window w = drawWindow(c, rank);
    // A window that lies in the padding alone has no largest element.
    for (int64_t dim = 0; dim < rank; ++dim)
      for (int64_t side : {dim, dim + rank})
        w.pads[size_t(side)] = std::min(w.pads[size_t(side)], (w.kernel[size_t(dim)] - 1) / 2);
    for (size_t dim = 0; dim < w.sizes.size(); ++dim)
      w.sizes[dim] += (w.kernel[dim] - 1) * w.dilations[dim];
    Value x = c.input(DataType::F32, inputDims(w, c.between(1, 2), c.among({1, 3, 8, 17})));
    std::vector<NamedAttribute> attributes{c.i64s("kernel", w.kernel), c.i64s("strides", w.strides),
                                           c.i64s("pads", w.pads), c.i64s("dilations", w.dilations),
                                           c.flag("ceil_mode", c.chance(30))};
    bool average = c.chance(50);
    if (average)
      attributes.push_back(c.flag("count_include_pad", c.chance(50)));
    Value y = c.op(average ? "average_pool" : "max_pool", x, attributes);
    ASSERT_NO_FATAL_FAILURE(c.check(y, "", roundingOf(DataType::F32)));
  }
}

} // namespace
} // namespace tensmith::pipeline
