// The parts of a convolution by Fourier transforms, together, against the convolution; and the
// transforms by sums and products against their definition.
#include "base/Fourier.h"
#include "reference/test/Expectations.h"

#include <complex>

namespace tensmith::reference {
namespace {

struct Layer {
  Integers input; // spatial
  int64_t images, in, out, group;
  Integers kernel, pads, dilations, tile;
};

/// With dimension `from` moved to `to`.
HostTensor moved(const HostTensor &x, int64_t from, int64_t to) {
  Integers permutation;
  for (int64_t dim = 0; dim < x.rank(); ++dim)
    if (dim != from)
      permutation.push_back(dim);
  permutation.insert(permutation.begin() + to, from);
  return evaluated("transpose", {x}, {{"permutation", permutation}})[0];
}

void expectNear(const HostTensor &found, const HostTensor &wanted) {
  ASSERT_EQ(found.shape(), wanted.shape());
  double largest = 1;
  for (int64_t i = 0; i < wanted.size(); ++i)
    largest = std::max(largest, std::abs(wanted.getDouble(i)));
  for (int64_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found.getDouble(i), wanted.getDouble(i), 1e-5 * largest) << "element " << i;
}

/// The gradients by the planes X of the image, W of the weights and those of g, against the plain
/// ones.
void expectGradients(const Layer &layer, const HostTensor &x, const HostTensor &w,
                     const HostTensor &g, const HostTensor &X, const HostTensor &W,
                     const Integers &window) {
  int64_t last = x.rank() - 1;
  Integers ones(layer.kernel.size(), 1), zeros(layer.kernel.size(), 0);
  AttributeList plain{{"group", layer.group},
                      {"pads", layer.pads},
                      {"dilations", layer.dilations},
                      {"strides", ones}};
  AttributeList frame{{"group", layer.group}, {"tile", layer.tile}};
  HostTensor gFirst = moved(g, last, 1);
  AttributeList transposed = plain, sums = plain, ofG = frame, ofImage = frame, ofWeights = frame;
  transposed.push_back({"output_padding", zeros});
  sums.push_back({"kernel", layer.kernel});
  ofG.push_back({"window", window});
  ofImage.insert(ofImage.end(), {{"window", window}, {"pads", layer.pads}, {"image", layer.input}});
  ofWeights.insert(ofWeights.end(), {{"dilations", layer.dilations}, {"kernel", layer.kernel}});
  HostTensor G = evaluated("fourier_gradient", {g}, ofG)[0];
  HostTensor products = evaluated("matmul", {G, moved(W, 2, 1)}, {})[0];
  expectNear(moved(evaluated("fourier_image_gradient", {products}, ofImage)[0], last, 1),
             evaluated("conv_transpose", {gFirst, w}, transposed)[0]);
  products = evaluated("matmul", {moved(X, 2, 1), G}, {})[0];
  expectNear(moved(evaluated("fourier_weights_gradient", {products}, ofWeights)[0], last, 0),
             evaluated("conv_weights_gradient", {moved(x, last, 1), gFirst}, sums)[0]);
  AttributeList changing = frame;
  changing.push_back({"dilations", layer.dilations});
  expectNear(evaluated("fourier_changing_weights", {moved(w, 0, last)}, changing)[0], W);
}

// Breaks where a tile, its rim, a frequency, a plane of a product or a group is taken for another.
TEST(FourierReference, IsTheConvolution) {
  const Layer layers[] = {
      {{9, 11}, 1, 1, 1, 1, {5, 5}, {2, 2, 2, 2}, {1, 1}, {8, 8}},
      {{7, 13}, 2, 3, 4, 1, {5, 3}, {1, 0, 2, 3}, {1, 1}, {9, 6}},
      {{12, 5}, 2, 4, 6, 2, {7, 1}, {3, 0, 3, 0}, {1, 1}, {12, 1}},
      {{5, 12}, 1, 4, 2, 2, {1, 7}, {0, 3, 0, 2}, {1, 1}, {1, 10}},
      {{10, 10}, 1, 2, 3, 1, {3, 4}, {0, 0, 1, 0}, {3, 2}, {12, 7}},
      {{3, 2}, 1, 2, 2, 1, {5, 5}, {4, 4, 4, 4}, {1, 1}, {16, 15}}, // less than a tile
      {{40}, 2, 2, 3, 1, {6}, {5, 0}, {1}, {1, 16}},
      {{40}, 1, 2, 3, 1, {6}, {1, 7}, {2}, {16, 1}},
      {{100}, 2, 4, 2, 2, {21}, {20, 0}, {1}, {5, 12}}, // a line by both
      {{33}, 1, 1, 1, 1, {9}, {4, 4}, {1}, {7, 3}},
  };
  for (const Layer &layer : layers) {
    auto shape = [](std::initializer_list<int64_t> first, const Integers &spatial, Integers last) {
      Integers all(first);
      all.insert(all.end(), spatial.begin(), spatial.end());
      all.insert(all.end(), last.begin(), last.end());
      return Shape(all.begin(), all.end());
    };
    HostTensor x = ramp(shape({layer.images}, layer.input, {layer.in}), 1);
    HostTensor w = ramp(shape({layer.out, layer.in / layer.group}, layer.kernel, {}), 2);
    HostTensor bias = ramp({layer.out}, 3);
    AttributeList group{{"group", layer.group}}, tile{{"tile", layer.tile}};
    auto plain = evaluated("conv", {x, w, bias},
                           {{"layout", std::string("channels_last")},
                            {"pads", layer.pads},
                            {"dilations", layer.dilations},
                            {"strides", Integers(layer.kernel.size(), 1)},
                            group[0]});
    ASSERT_EQ(plain.size(), 1u);
    const Shape &y = plain[0].shape();
    Integers window, image(y.begin() + 1, y.end() - 1);
    for (size_t dim = 0; dim < layer.kernel.size(); ++dim)
      window.push_back((layer.kernel[dim] - 1) * layer.dilations[dim] + 1);
    AttributeList frame{tile[0], group[0], {"window", window}};
    AttributeList input = frame, output = frame;
    input.push_back({"pads", layer.pads});
    output.push_back({"image", image});
    auto planes = evaluated("fourier_input", {x}, input);
    auto weights =
        evaluated("fourier_weights", {w}, {tile[0], group[0], {"dilations", layer.dilations}});
    ASSERT_EQ(planes.size() + weights.size(), 2u);
    auto products = evaluated("matmul", {planes[0], weights[0]}, {});
    auto found = evaluated("fourier_output", {products[0], bias}, output);
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(found[0].shape(), y);
    for (int64_t i = 0; i < found[0].size(); ++i)
      ASSERT_NEAR(found[0].getDouble(i), plain[0].getDouble(i), 1e-4)
          << "layer " << &layer - layers << ", element " << i;
    expectGradients(layer, x, w, ramp(y, 4), planes[0], weights[0], window);
  }
}

// Breaks if a pair of a spectrum is multiplied by another channel's.
TEST(FourierReference, DepthwiseIsTheConvolution) {
  for (auto [kernel, tile, pads] :
       {std::tuple{Integers{7, 5}, Integers{12, 9}, Integers{3, 2, 3, 2}},
        {Integers{9}, Integers{5, 8}, Integers{8, 0}}}) {
    Shape image(kernel.size() + 2, 11), taps(kernel.size() + 2, 1);
    image.front() = 2;
    image.back() = taps.front() = 3;
    std::copy(kernel.begin(), kernel.end(), taps.begin() + 2);
    HostTensor x = ramp(image, 1), w = ramp(taps, 2), bias = ramp({3}, 3);
    AttributeList all{
        {"layout", std::string("channels_last")}, {"pads", pads}, {"group", int64_t(3)}};
    auto plain = evaluated("conv", {x, w, bias}, all);
    auto spectra = evaluated(
        "fourier_weights", {w},
        {{"tile", tile}, {"dilations", Integers(kernel.size(), 1)}, {"pairs", int64_t(1)}, all[2]});
    ASSERT_EQ(plain.size() + spectra.size(), 2u);
    auto found = evaluated("fourier_conv", {x, spectra[0], bias},
                           {{"tile", tile}, {"window", kernel}, {"pads", pads}});
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(found[0].shape(), plain[0].shape());
    for (int64_t i = 0; i < found[0].size(); ++i)
      ASSERT_NEAR(found[0].getDouble(i), plain[0].getDouble(i), 1e-4) << i;
  }
}

TEST(FourierReference, RefusesWhatIsNoTile) {
  HostTensor x = ramp({1, 5, 5, 2}, 1);
  AttributeList list{{"window", Integers{3, 3}}, {"pads", Integers{0, 0, 0, 0}}};
  for (const Integers &tile : {Integers{2, 8}, Integers{8}, Integers{8, 1000}, Integers{0, 8}}) {
    AttributeList all = list;
    all.push_back({"tile", tile});
    expectFailure("fourier_input", {x}, all, StatusCode::InvalidArgument, "tile");
  }
  list.push_back({"tile", Integers{8, 8}});
  list.push_back({"group", int64_t(3)});
  expectFailure("fourier_input", {x}, list, StatusCode::InvalidArgument, "group");
}

struct Doubles {
  using Number = double;
  double add(double a, double b) const { return a + b; }
  double sub(double a, double b) const { return a - b; }
  double negate(double a) const { return -a; }
  double scale(double factor, double a) const { return factor * a; }
  double scaleAdd(double factor, double a, double b) const { return factor * a + b; }
};

// Breaks where a factor of some length, or a number that is known to be real, is turned wrongly.
TEST(Fourier, TransformsOfAnyLength) {
  using Transform = Fourier<Doubles>;
  Transform transform;
  for (int64_t size : {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 15,  16, 18,
                       20, 21, 24, 25, 32, 45, 48, 63, 64, 96, 105, 125}) {
    Transform::Numbers reals;
    Transform::Complexes numbers;
    for (int64_t i = 0; i < size; ++i) {
      reals.push_back(std::sin(double(3 * i * i + 1)));
      numbers.push_back({reals.back(), std::cos(double(i * i))});
    }
    auto defined = [&](int64_t k, int sign, bool real) {
      std::complex<double> sum = 0;
      for (int64_t i = 0; i < size; ++i)
        sum += std::complex<double>(reals[size_t(i)], real ? 0 : *numbers[size_t(i)].im) *
               std::polar(1.0, sign * 2 * std::numbers::pi * double(i * k % size) / double(size));
      return sum;
    };
    for (int sign : {-1, 1}) {
      auto found = transform.transform(numbers, sign);
      for (int64_t k = 0; k < size; ++k) {
        EXPECT_NEAR(found[size_t(k)].re, defined(k, sign, false).real(), 1e-11) << size << " " << k;
        EXPECT_NEAR(found[size_t(k)].im.value_or(0), defined(k, sign, false).imag(), 1e-11)
            << size << " " << k;
      }
    }
    auto half = transform.forward(reals);
    ASSERT_EQ(int64_t(half.size()), size / 2 + 1);
    for (int64_t k = 0; k <= size / 2; ++k) {
      EXPECT_NEAR(half[size_t(k)].re, defined(k, -1, true).real(), 1e-11) << size << " " << k;
      EXPECT_NEAR(half[size_t(k)].im.value_or(0), defined(k, -1, true).imag(), 1e-11)
          << size << " " << k;
    }
    auto back = transform.inverse(half, size);
    for (int64_t i = 0; i < size; ++i)
      EXPECT_NEAR(back[size_t(i)], double(size) * reals[size_t(i)], 1e-10) << size << " " << i;
  }
}

} // namespace
} // namespace tensmith::reference
