// Convolution and pooling by the reference evaluator, against values of ONNX Runtime, the onnx
// package's own reference or NumPy. A case breaks where a size, an order or a default of the
// operator is read differently than they do.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

TEST(ConvolutionReference, GroupedDilatedAsymmetricPads) {
  auto results = evaluated("conv", {ramp({1, 4, 5, 7}, 1), ramp({4, 2, 3, 2}, 2), ramp({4}, 3)},
                           {{"group", int64_t(2)},
                            {"strides", Integers{2, 1}},
                            {"pads", Integers{1, 0, 2, 1}},
                            {"dilations", Integers{1, 2}}});
  expectNear(
      results, 0, {1, 4, 3, 6},
      {0.640625,  -0.1875,   0.78125,   -2.5625,  -1.953125, 1.953125,  1.5625,    2.921875,
       -0.75,     0.25,      -1.265625, 1.03125,  0.15625,   1.359375,  0.765625,  -1.265625,
       -1.5,      0.234375,  -4.46875,  0.84375,  -0.3125,   -3.265625, 0.96875,   -1.28125,
       0.34375,   -1.84375,  -5.828125, 3.125,    -1.9375,   -3.28125,  -3.21875,  -3.421875,
       -0.390625, -1.3125,   -0.4375,   -1.59375, -0.640625, -0.6875,   -0.015625, 2.8125,
       -0.109375, 0.296875,  -0.140625, 2.03125,  0.609375,  -1.53125,  1.359375,  -1.859375,
       0.78125,   -0.828125, -0.640625, 1.34375,  2.25,      0.609375,  1.46875,   -3.9375,
       2.15625,   -2.890625, -2.90625,  1.390625, -3.828125, 3.0625,    -1.90625,  -2.5625,
       2.53125,   -2.015625, 1.390625,  0.171875, -1.765625, -1.90625,  -0.609375, 1.671875});
}

TEST(ConvolutionReference, ChannelsLast) {
  auto results = evaluated("conv", {ramp({1, 5, 7, 4}, 1), ramp({4, 2, 3, 2}, 2), ramp({4}, 3)},
                           {{"group", int64_t(2)},
                            {"layout", std::string("channels_last")},
                            {"strides", Integers{2, 1}},
                            {"pads", Integers{1, 0, 2, 1}},
                            {"dilations", Integers{1, 2}}});
  expectNear(
      results, 0, {1, 3, 6, 4},
      {-0.875,    0.015625,  1.53125,   -1.828125, -2.390625, -2.453125, 0.265625,  0.265625,
       4,         1.1875,    2.234375,  -2.671875, -1.828125, -2.359375, 1.328125,  4.8125,
       0.96875,   0.203125,  -2.453125, -3.875,    -0.71875,  -0.046875, -0.171875, -2.34375,
       -0.125,    -3.984375, 0.453125,  0.28125,   2.796875,  -3.75,     0.515625,  -0.546875,
       -1.109375, 1.875,     1.296875,  -0.65625,  -0.34375,  -2.5625,   -1.875,    0.3125,
       -0.65625,  0.90625,   5.015625,  -4.46875,  -0.390625, -1.25,     3.96875,   0.640625,
       0.125,     -2.828125, 1.0625,    0.328125,  1.34375,   -0.40625,  -0.34375,  -1.3125,
       -2.828125, -2.65625,  1.484375,  0.28125,   1.984375,  -2.390625, 0.078125,  -1.359375,
       -2.90625,  2.90625,   1.90625,   0.234375,  -0.015625, -1.984375, -1.28125,  -0.34375});
}

TEST(ConvolutionReference, OneDimension) {
  auto results =
      evaluated("conv", {ramp({2, 3, 9}, 1), ramp({2, 3, 4}, 2)},
                {{"strides", Integers{3}}, {"pads", Integers{2, 1}}, {"dilations", Integers{2}}});
  expectNear(results, 0, {2, 2, 2},
             {-1.53125, -3.203125, -1.953125, -1.15625, 1.609375, -2.796875, 3.125, -0.203125});
}

TEST(ConvolutionReference, ThreeDimensionsDepthwise) {
  auto results =
      evaluated("conv", {ramp({1, 2, 3, 4, 3}, 1), ramp({2, 1, 2, 3, 2}, 2), ramp({2}, 3)},
                {{"strides", Integers{1, 2, 1}},
                 {"pads", Integers{0, 1, 0, 1, 0, 1}},
                 {"dilations", Integers{1, 1, 1}},
                 {"group", int64_t(2)}});
  expectNear(results, 0, {1, 2, 3, 2, 3},
             {-2.640625, 2.28125,   -3.328125, 2.421875,  -1.96875,  1.46875,
              -2.875,    -2.265625, 1.578125,  -1.75,     2.125,     0.71875,
              0.921875,  0.234375,  0.5625,    1.78125,   0.34375,   -2.921875,
              -3.09375,  1.859375,  -2.859375, 3.453125,  -3.765625, -1.09375,
              1,         -6.265625, 0.4375,    -6.265625, 3.046875,  -4.796875,
              -0.984375, 0.140625,  -2.03125,  -0.75,     -4.859375, -0.078125});
}

TEST(ConvolutionReference, OneByOne) {
  auto results = evaluated("conv", {ramp({1, 3, 2, 3}, 1), ramp({4, 3, 1, 1}, 2)}, {});
  expectNear(results, 0, {1, 4, 2, 3},
             {-1.015625, -1.140625, 1.96875, -0.671875, 2.4375,    -0.921875, -0.953125, -0.828125,
              2.53125,   -1.296875, 2.0625,  -1.046875, 1.625,     -1.234375, -0.859375, -0.84375,
              -0.46875,  1.703125,  1.6875,  -0.921875, -0.296875, -1.46875,  -0.84375,  1.578125});
}

TEST(ConvolutionReference, IntegersAccumulateIn32Bits) {
  auto results = evaluated("conv",
                           {integers(DataType::U8, {1, 1, 3, 3}, {200, 255, 1, 2, 250, 3, 9, 8, 7}),
                            integers(DataType::I8, {1, 1, 2, 2}, {127, -128, 5, -6})},
                           {{"accumulate_i32", int64_t(1)}});
  expectNear(results, 0, {1, 1, 2, 2}, {-8730, 33489, -31749, 31364});
}

TEST(ConvolutionReference, TransposedGroupedDilated) {
  auto results =
      evaluated("conv_transpose", {ramp({1, 4, 3, 4}, 1), ramp({4, 2, 3, 2}, 2), ramp({4}, 5)},
                {{"strides", Integers{2, 3}},
                 {"pads", Integers{1, 0, 0, 2}},
                 {"dilations", Integers{1, 2}},
                 {"output_padding", Integers{1, 0}},
                 {"group", int64_t(2)}});
  expectNear(
      results, 0, {1, 4, 7, 10},
      {-0.25,     -0.25,     -1.234375, 0.734375,  -0.25,     -0.953125, -0.796875, -0.25,
       1.84375,   0.1875,    2.484375,  -0.25,     -1.21875,  -0.578125, -0.25,     2.578125,
       -2.5625,   -0.25,     -0.8125,   1.921875,  -1.34375,  -0.25,     1.6875,    -0.359375,
       -0.25,     -1.265625, 0.625,     -0.25,     -0.984375, -0.90625,  -1.859375, -0.25,
       -1.125,    2.625,     -0.25,     -1.28125,  -0.4375,   -0.25,     2.515625,  -2.421875,
       0.078125,  -0.25,     -1.140625, -1.453125, -0.25,     1.65625,   -0.46875,  -0.25,
       -1.296875, 0.515625,  0.15625,   -0.25,     0.015625,  -0.984375, -0.25,     -1.828125,
       0.390625,  -0.25,     -1.15625,  -0.03125,  -0.25,     -0.25,     -0.25,     -0.25,
       -0.25,     -0.25,     -0.25,     -0.25,     -0.25,     -0.25,     -2.25,     -1.375,
       -0.71875,  -2.25,     -1.375,    -1.421875, 0.625,     -1.375,    -2.484375, -2.25,
       -2.171875, -1.375,    -1.203125, 1.421875,  -1.375,    -2.25,     -2.171875, -1.375,
       -2.21875,  -2.171875, 0.625,     -1.375,    -2.09375,  -2.25,     -1.375,    -0.640625,
       -2.25,     -1.375,    -1.34375,  0.625,     -2.171875, -1.375,    -1.4375,   -2.171875,
       -1.375,    -1.046875, 1.421875,  -1.375,    -2.09375,  -2.171875, -2.25,     -1.375,
       -0.953125, 0.625,     -1.375,    -2.015625, -2.25,     -1.375,    -0.5625,   -2.25,
       -1.09375,  -1.375,    -0.875,    -2.859375, -1.375,    -1.546875, -2.109375, -1.375,
       0.296875,  -0.28125,  -1.375,    -1.375,    -1.375,    -1.375,    -1.375,    -1.375,
       -1.375,    -1.375,    -1.375,    -1.375,    -0.328125, 0.375,     0.5,       2.46875,
       0.375,     -0.640625, -0.484375, 0.375,     0.734375,  2.3125,    3.203125,  0.375,
       -0.46875,  -0.1875,   0.375,     -0.234375, -0.34375,  0.375,     0,         -0.5,
       -0.640625, 0.375,     0.96875,   -0.359375, 0.375,     0.546875,  2.4375,    0.375,
       -0.59375,  -0.515625, -0.65625,  0.375,     0.46875,   3.140625,  0.375,     -0.375,
       -0.25,     0.375,     -0.140625, -0.40625,  2.28125,   0.375,     -0.359375, -0.671875,
       0.375,     1.015625,  -0.390625, 0.375,     0.59375,   2.40625,   -1.203125, 0.375,
       0.109375,  -0.53125,  0.375,     1.875,     1.578125,  0.375,     0.046875,  -0.265625,
       0.375,     0.375,     0.375,     0.375,     0.375,     0.375,     0.375,     0.375,
       0.375,     0.375,     -0.796875, -0.75,     0.75,      -1.859375, -0.75,     -1.015625,
       -0.40625,  -0.75,     -0.265625, -1.46875,  -1.625,    -0.75,     -0.984375, -1.59375,
       -0.75,     -2.359375, -1.203125, -0.75,     1.65625,   -0.8125,   -0.015625, -0.75,
       -1.28125,  -0.71875,  -0.75,     0.546875,  -1.78125,  -0.75,     -1.21875,  -0.328125,
       -0.421875, -0.75,     1.421875,  -1.46875,  -0.75,     -1.03125,  -1.4375,   -0.75,
       -2.40625,  -1.046875, -1.390625, -0.75,     -2.234375, 0.0625,    -0.75,     -1.484375,
       -0.640625, -0.75,     0.34375,   -1.703125, -0.921875, -0.75,     -1.765625, 0.921875,
       -0.75,     -0.625,    -1.1875,   -0.75,     -0.203125, -1.859375, -0.75,     -0.75,
       -0.75,     -0.75,     -0.75,     -0.75,     -0.75,     -0.75,     -0.75,     -0.75});
}

TEST(ConvolutionReference, TransposedOneDimension) {
  auto results =
      evaluated("conv_transpose", {ramp({1, 2, 5}, 1), ramp({2, 1, 3}, 2)},
                {{"strides", Integers{2}}, {"pads", Integers{0, 1}}, {"dilations", Integers{1}}});
  expectNear(results, 0, {1, 1, 10},
             {0.109375, -0.03125, -2.59375, -0.03125, 3.875, -0.03125, -2.59375, -0.03125, 3.875,
              -0.03125});
}

TEST(ConvolutionReference, DeformableWithMaskAndOffsetGroups) {
  auto results = evaluated("deform_conv",
                           {ramp({1, 2, 4, 5}, 1), ramp({2, 2, 2, 2}, 2), ramp({1, 16, 2, 5}, 3),
                            ramp({2}, 4), ramp({1, 8, 2, 5}, 5)},
                           {{"strides", Integers{2, 1}},
                            {"pads", Integers{0, 1, 1, 0}},
                            {"dilations", Integers{1, 1}},
                            {"offset_group", int64_t(2)}});
  expectNear(results, 0, {1, 2, 2, 5},
             {0.8837891,  1.479797,  1.778137,  1.652222,   0.7562256, 0.3805542,  1.415588,
              2.230347,   0.2228088, 2.721802,  0.06494141, 0.1207886, -0.9234314, 0.3503418,
              -0.1330261, 0.8464661, 0.1539917, -0.6790161, 0.6183167, 1.149658});
}

TEST(PoolingReference, MaxStridedDilated) {
  auto results = evaluated("max_pool", {ramp({1, 2, 5, 7}, 1)},
                           {{"kernel", Integers{2, 3}},
                            {"strides", Integers{2, 3}},
                            {"pads", Integers{1, 0, 0, 1}},
                            {"dilations", Integers{1, 2}}});
  expectNear(results, 0, {1, 2, 3, 2},
             {1.25, 0.125, 1.375, 1, 1.375, 0.25, 0.875, 1, 0.75, 1.125, 1, 1.125});
}

TEST(PoolingReference, MaxIndices) {
  auto results = evaluated("max_pool_indices", {ramp({1, 2, 5, 7}, 1)},
                           {{"kernel", Integers{2, 3}},
                            {"strides", Integers{2, 3}},
                            {"pads", Integers{1, 0, 0, 1}},
                            {"dilations", Integers{1, 2}}});
  expectNear(results, 0, {1, 2, 3, 2}, {4, 5, 9, 17, 32, 33, 35, 40, 53, 45, 63, 68});
}

TEST(PoolingReference, MaxIndicesColumnMajor) {
  auto results = evaluated("max_pool_indices", {ramp({1, 2, 5, 7}, 1)},
                           {{"column_major", int64_t(1)},
                            {"kernel", Integers{2, 3}},
                            {"strides", Integers{2, 3}},
                            {"pads", Integers{1, 0, 0, 1}},
                            {"dilations", Integers{1, 2}}});
  expectNear(results, 0, {1, 2, 3, 2}, {20, 25, 11, 17, 24, 29, 35, 60, 57, 51, 39, 64});
}

TEST(PoolingReference, MaxCeil) {
  auto results = evaluated("max_pool", {ramp({1, 1, 6, 7}, 1)},
                           {{"kernel", Integers{3, 3}},
                            {"strides", Integers{2, 2}},
                            {"pads", Integers{0, 1, 1, 1}},
                            {"ceil_mode", int64_t(1)}});
  expectNear(results, 0, {1, 1, 3, 4},
             {0.75, 1.375, 1.25, 0.875, 1.125, 1.125, 1.375, 1.25, 0.875, 0.75, 1.375, 1});
}

TEST(PoolingReference, AverageCeilLeavesPaddingOut) {
  auto results = evaluated("average_pool", {ramp({1, 1, 6, 7}, 1)},
                           {{"kernel", Integers{3, 3}},
                            {"strides", Integers{2, 2}},
                            {"pads", Integers{0, 1, 1, 1}},
                            {"ceil_mode", int64_t(1)}});
  expectNear(results, 0, {1, 1, 3, 4},
             {-0.2916667, 0.09722222, 0.08333334, -0.1666667, -0.2291667, 0, -0.01388889,
              -0.1041667, -0.0625, -0.3125, 0.3125, 0.0625});
}

TEST(PoolingReference, AverageCeilCountsPadding) {
  auto results = evaluated("average_pool", {ramp({1, 1, 6, 7}, 1)},
                           {{"count_include_pad", int64_t(1)},
                            {"kernel", Integers{3, 3}},
                            {"strides", Integers{2, 2}},
                            {"pads", Integers{0, 1, 1, 1}},
                            {"ceil_mode", int64_t(1)}});
  expectNear(results, 0, {1, 1, 3, 4},
             {-0.1944444, 0.09722222, 0.08333334, -0.1111111, -0.1527778, 0, -0.01388889,
              -0.06944445, -0.02777778, -0.2083333, 0.2083333, 0.02777778});
}

TEST(PoolingReference, Lp) {
  auto results = evaluated("lp_pool", {ramp({1, 1, 6, 7}, 1)},
                           {{"p", int64_t(3)},
                            {"kernel", Integers{2, 3}},
                            {"strides", Integers{3, 2}},
                            {"pads", Integers{1, 0, 0, 1}}});
  expectNear(results, 0, {1, 1, 2, 3}, {1.18594, 1.324252, 1.435015, 1.680066, 1.456813, 1.638933});
}

TEST(PoolingReference, MaxChannelsLast) {
  auto results = evaluated("max_pool", {ramp({1, 5, 4, 2}, 1)},
                           {{"kernel", Integers{3, 2}},
                            {"strides", Integers{2, 1}},
                            {"layout", std::string("channels_last")}});
  expectNear(results, 0, {1, 2, 3, 2},
             {0.625, 1.375, 1.25, 0.125, 1.25, 0.75, 1.375, 1.25, 0.5, 1.25, 1.125, 0});
}

TEST(PoolingReference, MaxOfNegativeIntegers) {
  auto results = evaluated(
      "max_pool", {integers(DataType::I8, {1, 1, 2, 4}, {-128, -100, -3, -4, -90, -128, -5, -6})},
      {{"kernel", Integers{2, 2}}, {"strides", Integers{1, 1}}, {"pads", Integers{0, 1, 0, 1}}});
  expectNear(results, 0, {1, 1, 1, 5}, {-90, -90, -3, -3, -4});
}

TEST(PoolingReference, Unpool) {
  auto results = evaluated(
      "max_unpool",
      {floats({1, 1, 2, 2}, {1, 2, 3, 4}), integers(DataType::I64, {1, 1, 2, 2}, {5, 7, 13, 15})},
      {{"kernel", Integers{2, 2}}, {"strides", Integers{2, 2}}});
  expectNear(results, 0, {1, 1, 4, 4}, {0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4});
}

TEST(PoolingReference, UnpoolIntoLargerResult) {
  auto results = evaluated("max_unpool",
                           {floats({1, 1, 2, 2}, {1, 2, 3, 4}),
                            integers(DataType::I64, {1, 1, 2, 2}, {5, 7, 13, 15}),
                            integers(DataType::I64, {4}, {1, 1, 5, 6})},
                           {{"kernel", Integers{2, 2}}, {"strides", Integers{2, 2}}});
  expectNear(results, 0, {1, 1, 5, 6}, {0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0,
                                        0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST(PoolingReference, ColumnsToImage) {
  auto results = evaluated(
      "col2im",
      {ramp({1, 12, 6}, 1), integers(DataType::I64, {2}, {4, 5}),
       integers(DataType::I64, {2}, {2, 3})},
      {{"dilations", Integers{2, 1}}, {"pads", Integers{1, 0, 0, 1}}, {"strides", Integers{1, 2}}});
  expectNear(results, 0, {1, 2, 4, 5},
             {0.625, -0.375, -1.875, 1.375, 0.375, 1.125, -0.875, -1.125, -0.25, 0.625,
              0.5,   -0.5,   0.75,   1.25,  0.25,  1.125, 0.125,  -0.875, -1,    0.875,
              0.375, -0.625, 0.5,    1.125, 0.125, 0.625, -1.375, 0.75,   -0.75, 0.125,
              0.25,  -0.75,  0.25,   1,     0,     0.875, -0.125, -1.375, -1.25, 0.625});
}

} // namespace
} // namespace tensmith::reference
