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

// Breaks where a tile reaches out of the image, channels leave a rest, or a plane is another's.
TEST(FourierKernel, Input) {
  for (const Layer &layer : kLayers)
    expectAgreement(kernelOf("fourier_input",
                             layer.attributes() + ", pads = " + integers(layer.pads) +
                                 ", group = " + std::to_string(layer.group) + " : i64",
                             {layer.image}, layer.planes(), false),
                    "fourier input", layer);
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
