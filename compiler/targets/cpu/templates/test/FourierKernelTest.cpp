// The transforms around products of Fourier transforms, and a depthwise convolution by them,
// against their reference evaluation.
#include "compiler/targets/cpu/templates/FourierKernel.h"
#include "base/Fourier.h"
#include "compiler/targets/cpu/templates/test/KernelRunner.h"
#include "compiler/targets/cpu/templates/test/KernelText.h"

namespace tensmith::kernel {
namespace {

struct Layer {
  Shape image; // [N, spatial..., C]
  std::vector<int64_t> tile, window, pads;
  int64_t group = 1;

  FourierTile made() const { return *FourierTile::of(tile, window); }
  Shape outputs() const {
    Shape y = image;
    for (size_t dim = 0; dim < window.size(); ++dim)
      y[dim + 1] += pads[dim] + pads[dim + window.size()] - window[dim] + 1;
    return y;
  }
  Shape planes() const {
    FourierTile tile = made();
    Shape y = outputs();
    int64_t tiles = image[0] * tile.tilesOf(std::vector(y.begin() + 1, y.end() - 1));
    return {tile.planes(kFourierThirds) * group, tiles, image.back() / group};
  }
  std::string attributes() const {
    return "tile = " + integers(tile) + ", window = " + integers(window);
  }
};

const Layer kLayers[] = {
    {{2, 9, 13, 17}, {8, 8}, {5, 3}, {2, 1, 0, 3}},
    {{1, 20, 19, 36}, {16, 16}, {5, 5}, {2, 2, 2, 2}, 2},
    {{2, 3, 2, 24}, {12, 9}, {7, 6}, {5, 6, 4, 3}, 3}, // less than a tile
    {{1, 7, 30, 16}, {1, 24}, {1, 7}, {0, 3, 0, 3}},
    {{1, 30, 7, 5}, {24, 1}, {9, 1}, {4, 0, 4, 0}},
    {{2, 70, 20}, {1, 32}, {11}, {10, 0}},
    {{2, 200, 20}, {15, 8}, {31}, {0, 35}, 2}, // a line by both
    {{1, 90, 16}, {45, 32}, {80}, {79, 79}},
};

/// A kernel of one operator, and of the product of its result with another tensor.
std::string kernelOf(const std::string &name, const std::string &attributes,
                     const std::vector<Shape> &operands, const Shape &result, bool follows) {
  std::string parameters, names, arguments, types, inside;
  std::vector<Shape> all = operands;
  if (follows)
    all.push_back(result);
  for (size_t i = 0; i < all.size(); ++i) {
    std::string n = std::to_string(i), comma = i ? ", " : "", type = tensor(all[i]);
    parameters += comma + "%p" + n + ": " + type;
    arguments += comma + "%a" + n + ": " + type;
    names += comma + "%p" + n;
    types += comma + type;
    if (i < operands.size())
      inside += comma + "%a" + n;
  }
  std::string y = tensor(result), of = types.substr(0, follows ? types.rfind(", ") : types.size());
  std::string body = "  %r = \"graph." + name + "\"(" + inside + ") <{" + attributes + "}> : (" +
                     of + ") -> " + y + "\n";
  if (follows)
    body += "  %f = graph.mul %r, %a" + std::to_string(operands.size()) + " : (" + y + ", " + y +
            ") -> " + y + "\n";
  return "func.func @main(" + parameters + ") -> " + y + " {\n  %k = \"graph.kernel\"(" + names +
         ") <{label = \"k\", kind = \"\"}> ({\n  ^bb0(" + arguments + "):\n" + body +
         "  graph.yield " + (follows ? "%f" : "%r") + " : " + y + "\n  }) : (" + types + ") -> " +
         y + "\n  return %k : " + y + "\n}";
}

void expectAgreement(const std::string &text, const std::string &summary, const Layer &layer,
                     int64_t tilesApart) {
  SizedPoint point;
  if (summary != "fourier image gradient") // an item of which is all tiles
    point.point.set(*kFourier.choices[0], tilesApart);
  KernelRunner runner(text, hostKernelMachine(), point);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ(runner.summary(), summary);
  auto inputs = runner.operands({});
  auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
  EXPECT_EQ(runner.failure(), 0);
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0;
  for (int64_t i = 0; i < wanted[0].size(); ++i)
    largest = std::max(largest, std::abs(wanted[0].getDouble(i)));
  for (int64_t i = 0; i < wanted[0].size(); ++i)
    ASSERT_NEAR(got[0].getDouble(i), wanted[0].getDouble(i), 2e-6 * largest)
        << "layer " << &layer - kLayers << ", element " << i;
}

/// In either order of items.
void expectAgreement(const std::string &text, const std::string &summary, const Layer &layer) {
  for (int64_t tilesApart : {0, 1})
    expectAgreement(text, summary, layer, tilesApart);
}

/// Planes alone, and with what follows in the kernel.
void expectPlanes(const std::string &name, const std::string &attributes, const Shape &image,
                  const Shape &planes, const std::string &summary, const Layer &layer) {
  for (bool follows : {false, true})
    expectAgreement(kernelOf(name, attributes, {image}, planes, follows), summary, layer);
}

// Breaks where a tile reaches out of the image, channels leave a rest, a plane is another's, or
// planes are stored without what follows.
TEST(FourierKernel, InputWithEpilogue) {
  for (const Layer &layer : kLayers)
    expectPlanes("fourier_input",
                 layer.attributes() + ", pads = " + integers(layer.pads) +
                     ", group = " + std::to_string(layer.group) + " : i64",
                 layer.image, layer.planes(), "fourier input", layer);
}

// Breaks where rows or columns beyond the image are written, or what follows is misplaced.
TEST(FourierKernel, OutputWithBiasAndEpilogue) {
  for (const Layer &layer : kLayers) {
    Shape y = layer.outputs();
    expectAgreement(kernelOf("fourier_output",
                             layer.attributes() +
                                 ", image = " + integers({y.begin() + 1, y.end() - 1}) +
                                 ", group = " + std::to_string(layer.group) + " : i64",
                             {layer.planes(), {y.back()}}, y, true),
                    "fourier output", layer);
  }
}

// Breaks where a tile's zeros begin too early or too late, or a plane has another's sign.
TEST(FourierKernel, GradientWithEpilogue) {
  for (const Layer &layer : kLayers)
    expectPlanes("fourier_gradient",
                 layer.attributes() + ", group = " + std::to_string(layer.group) + " : i64",
                 layer.outputs(), layer.planes(), "fourier gradient", layer);
}

// Breaks where tiles that overlap are not added up, padding is written, or what follows comes
// before the last tile.
TEST(FourierKernel, ImageGradientWithEpilogue) {
  for (const Layer &layer : kLayers)
    expectAgreement(kernelOf("fourier_image_gradient",
                             layer.attributes() + ", image = " +
                                 integers({layer.image.begin() + 1, layer.image.end() - 1}) +
                                 ", pads = " + integers(layer.pads) +
                                 ", group = " + std::to_string(layer.group) + " : i64",
                             {layer.planes()}, layer.image, true),
                    "fourier image gradient", layer);
}

struct Weights {
  Shape w; // [C / group, kernel..., M]
  std::vector<int64_t> tile, dilations;
  int64_t group = 1;

  Shape planes() const {
    std::vector<int64_t> window;
    for (size_t dim = 0; dim < dilations.size(); ++dim)
      window.push_back((w[dim + 1] - 1) * dilations[dim] + 1);
    int64_t count = FourierTile::of(tile, window)->planes(kFourierThirds);
    return {count * group, w[0], w.back() / group};
  }
  std::string attributes() const {
    return "tile = " + integers(tile) + ", dilations = " + integers(dilations) +
           ", group = " + std::to_string(group) + " : i64";
  }
};

const Weights kWeights[] = {
    {{3, 5, 3, 17}, {8, 8}, {1, 1}},    {{2, 5, 5, 36}, {16, 12}, {3, 2}, 2},
    {{1, 1, 7, 16}, {1, 24}, {1, 1}},   {{4, 9, 1, 5}, {24, 1}, {2, 1}},
    {{2, 11, 20}, {1, 32}, {2}},        {{3, 31, 10}, {15, 8}, {3}, 2},
    {{1, 8, 8, 48}, {8, 8}, {1, 1}, 3},
};

// Breaks where a tap, a channel of a group or the conjugate is taken for another.
TEST(FourierKernel, WeightsWithEpilogue) {
  for (const Weights &weights : kWeights)
    expectPlanes("fourier_changing_weights", weights.attributes(), weights.w, weights.planes(),
                 "fourier weights", kLayers[0]);
}

// The same of the way back.
TEST(FourierKernel, WeightsGradientWithEpilogue) {
  for (const Weights &weights : kWeights)
    expectAgreement(kernelOf("fourier_weights_gradient",
                             weights.attributes() + ", kernel = " +
                                 integers({weights.w.begin() + 1, weights.w.end() - 1}),
                             {weights.planes()}, weights.w, true),
                    "fourier weights gradient", kLayers[0]);
}

// Breaks if a pair is multiplied by another's, or an inverse reads what was written over.
TEST(FourierKernel, Convolution) {
  for (const Layer &layer : kLayers) {
    Shape y = layer.outputs();
    expectAgreement(
        kernelOf("fourier_conv", layer.attributes() + ", pads = " + integers(layer.pads),
                 {layer.image, {layer.made().numbers(), y.back()}, {y.back()}}, y, true),
        "fourier convolution", layer);
  }
}

} // namespace
} // namespace tensmith::kernel
