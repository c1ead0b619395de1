// A Winograd convolution's three parts, together, against the convolution.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

struct Layer {
  int64_t images, height, width, in, out, taps;
  Integers pads;
};

// Breaks where a tile, its rim of padding or a frequency is taken for another.
TEST(WinogradReference, IsTheConvolution) {
  const Layer layers[] = {{1, 4, 4, 1, 1, 3, {1, 1, 1, 1}},
                          {2, 5, 7, 3, 4, 3, {1, 0, 2, 1}},
                          {1, 9, 6, 2, 5, 2, {0, 1, 0, 0}},
                          {3, 8, 11, 1, 2, 5, {2, 2, 2, 2}},
                          {1, 3, 3, 2, 3, 3, {0, 0, 0, 0}}};
  for (const Layer &layer : layers)
    for (int64_t outputs : {1, 2, 3, 4}) {
      HostTensor x = ramp({layer.images, layer.height, layer.width, layer.in}, 1);
      HostTensor w = ramp({layer.out, layer.in, layer.taps, layer.taps}, 2);
      HostTensor bias = ramp({layer.out}, 3);
      auto plain = evaluated("conv", {x, w, bias},
                             {{"layout", std::string("channels_last")}, {"pads", layer.pads}});
      ASSERT_EQ(plain.size(), 1u);
      const Shape &image = plain[0].shape();
      AttributeList tile{{"outputs", outputs}, {"taps", layer.taps}}, input = tile, output = tile;
      input.push_back({"pads", layer.pads});
      output.push_back({"image", Integers{image[1], image[2]}});
      auto patches = evaluated("winograd_input", {x}, input);
      auto weights = evaluated("winograd_weights", {w}, tile);
      ASSERT_EQ(patches.size() + weights.size(), 2u);
      auto products = evaluated("matmul", {patches[0], weights[0]}, {});
      auto y = evaluated("winograd_output", {products[0], bias}, output);
      ASSERT_EQ(y.size(), 1u);
      ASSERT_EQ(y[0].shape(), image);
      for (int64_t i = 0; i < y[0].size(); ++i)
        ASSERT_NEAR(y[0].getDouble(i), plain[0].getDouble(i), 1e-4)
            << outputs << " outputs of " << layer.taps << " taps, element " << i;
    }
}

HostTensor integersOf(DataType type, Shape shape, int64_t low, int64_t high) {
  HostTensor tensor = HostTensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setInt(i, i % 13 == 0 ? high : low + i * 7919 % (high - low + 1));
  return tensor;
}

// Breaks if integers go through fractions, or sums of more than 32 bits on the way are lost.
TEST(WinogradReference, OfIntegersIsExact) {
  for (int64_t outputs : {1, 2, 3, 4})
    for (int64_t channels : {1, 3, 40}) {
      HostTensor x = integersOf(DataType::I16, {2, 7, 6, channels}, -255, 255);
      HostTensor w = integersOf(DataType::I16, {2, channels, 3, 3}, -127, 127);
      Integers pads{1, 0, 1, 2};
      auto plain = evaluated("conv", {x, w, HostTensor()},
                             {{"layout", std::string("channels_last")},
                              {"pads", pads},
                              {"accumulate_i32", int64_t(1)}});
      ASSERT_EQ(plain.size(), 1u);
      const Shape &image = plain[0].shape();
      AttributeList tile{{"outputs", outputs}, {"taps", int64_t(3)}}, input = tile, output = tile;
      input.push_back({"pads", pads});
      output.push_back({"image", Integers{image[1], image[2]}});
      auto patches = evaluated("winograd_input", {x}, input);
      auto weights = evaluated("winograd_weights", {w}, tile);
      ASSERT_EQ(patches.size() + weights.size(), 2u);
      auto products =
          evaluated("matmul", {patches[0], weights[0]}, {{"accumulate_i32", int64_t(1)}});
      auto y = evaluated("winograd_output", {products[0], HostTensor()}, output);
      ASSERT_EQ(y.size(), 1u);
      ASSERT_EQ(y[0].shape(), image);
      for (int64_t i = 0; i < y[0].size(); ++i)
        ASSERT_EQ(y[0].getInt(i), plain[0].getInt(i))
            << outputs << " outputs of " << channels << " channels, element " << i;
    }
}

// Breaks if an image that gives no output has tiles, or one that would give less than none is
// taken.
TEST(WinogradReference, OfAnImageSmallerThanItsWindow) {
  AttributeList input{
      {"outputs", int64_t(2)}, {"taps", int64_t(3)}, {"pads", Integers{0, 0, 0, 0}}};
  auto patches = evaluated("winograd_input", {ramp({2, 2, 5, 3}, 1)}, input);
  ASSERT_EQ(patches.size(), 1u);
  EXPECT_EQ(patches[0].shape(), Shape({16, 0, 3}));
  expectFailure("winograd_input", {ramp({2, 1, 5, 3}, 1)}, input, StatusCode::InvalidArgument,
                "less than none");
}

} // namespace
} // namespace tensmith::reference
