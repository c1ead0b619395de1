// Resampling by the reference evaluator, against values of ONNX Runtime, the onnx package's own
// reference or NumPy. A case breaks where a size, an order or a default of the operator is read
// differently than they do.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

TEST(ResamplingReference, ResizeNearest_round_prefer_floor) {
  auto results = evaluated(
      "resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 1.5, 2})},
      {{"mode", std::string("nearest")}, {"nearest_mode", std::string("round_prefer_floor")}});
  expectNear(results, 0, {1, 1, 4, 8},
             {0,      0,     -1.125, -1.125, 0.625, 0.625, -0.5, -0.5,  0,      0,     -1.125,
              -1.125, 0.625, 0.625,  -0.5,   -0.5,  1.25,  1.25, 0.125, 0.125,  -1,    -1,
              0.75,   0.75,  -0.375, -0.375, 1.375, 1.375, 0.25, 0.25,  -0.875, -0.875});
}

TEST(ResamplingReference, ResizeNearest_round_prefer_ceil) {
  auto results = evaluated(
      "resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 1.5, 2})},
      {{"mode", std::string("nearest")}, {"nearest_mode", std::string("round_prefer_ceil")}});
  expectNear(results, 0, {1, 1, 4, 8},
             {0,     0,    -1.125, -1.125, 0.625, 0.625, -0.5, -0.5,  1.25,   1.25,  0.125,
              0.125, -1,   -1,     0.75,   0.75,  1.25,  1.25, 0.125, 0.125,  -1,    -1,
              0.75,  0.75, -0.375, -0.375, 1.375, 1.375, 0.25, 0.25,  -0.875, -0.875});
}

TEST(ResamplingReference, ResizeNearest_floor) {
  auto results =
      evaluated("resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 1.5, 2})},
                {{"mode", std::string("nearest")}, {"nearest_mode", std::string("floor")}});
  expectNear(results, 0, {1, 1, 4, 8},
             {0,      0,      0,     -1.125, -1.125, 0.625, 0.625, -0.5, 0,     0,     0,
              -1.125, -1.125, 0.625, 0.625,  -0.5,   1.25,  1.25,  1.25, 0.125, 0.125, -1,
              -1,     0.75,   1.25,  1.25,   1.25,   0.125, 0.125, -1,   -1,    0.75});
}

TEST(ResamplingReference, ResizeNearest_ceil) {
  auto results =
      evaluated("resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 1.5, 2})},
                {{"mode", std::string("nearest")}, {"nearest_mode", std::string("ceil")}});
  expectNear(results, 0, {1, 1, 4, 8},
             {0,      -1.125, -1.125, 0.625, 0.625, -0.5,   -0.5,  -0.5,   1.25,   0.125, 0.125,
              -1,     -1,     0.75,   0.75,  0.75,  -0.375, 1.375, 1.375,  0.25,   0.25,  -0.875,
              -0.875, -0.875, -0.375, 1.375, 1.375, 0.25,   0.25,  -0.875, -0.875, -0.875});
}

TEST(ResamplingReference, ResizeLinear_half_pixel) {
  auto results =
      evaluated("resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 0.6, 0.5})},
                {{"mode", std::string("linear")},
                 {"coordinate_transformation_mode", std::string("half_pixel")}});
  expectNear(results, 0, {1, 1, 1, 2}, {-0.1458334, 6.208817e-09});
}

TEST(ResamplingReference, ResizeLinear_pytorch_half_pixel) {
  auto results =
      evaluated("resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 0.6, 0.5})},
                {{"mode", std::string("linear")},
                 {"coordinate_transformation_mode", std::string("pytorch_half_pixel")}});
  expectNear(results, 0, {1, 1, 1, 2}, {-0.5625, 0.0625});
}

TEST(ResamplingReference, ResizeLinear_align_corners) {
  auto results =
      evaluated("resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 0.6, 0.5})},
                {{"mode", std::string("linear")},
                 {"coordinate_transformation_mode", std::string("align_corners")}});
  expectNear(results, 0, {1, 1, 1, 2}, {0, -0.5});
}

TEST(ResamplingReference, ResizeLinear_asymmetric) {
  auto results =
      evaluated("resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 0.6, 0.5})},
                {{"mode", std::string("linear")},
                 {"coordinate_transformation_mode", std::string("asymmetric")}});
  expectNear(results, 0, {1, 1, 1, 2}, {0, 0.625});
}

TEST(ResamplingReference, ResizeLinear_half_pixel_symmetric) {
  auto results =
      evaluated("resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 0.6, 0.5})},
                {{"mode", std::string("linear")},
                 {"coordinate_transformation_mode", std::string("half_pixel_symmetric")}});
  expectNear(results, 0, {1, 1, 1, 2}, {0.6875, -0.125});
}

TEST(ResamplingReference, ResizeCubicExcludeOutside) {
  auto results = evaluated(
      "resize", {ramp({1, 1, 3, 4}, 1), HostTensor(), floats({4}, {1, 1, 1.5, 2})},
      {{"mode", std::string("cubic")}, {"exclude_outside", int64_t(1)}, {"cubic_coeff_a", -0.5}});
  expectNear(results, 0, {1, 1, 4, 8},
             {0.0170282,  -0.3382032, -1.091414,  -0.8616492, 0.4040524,  0.5742137,   -0.2903739,
              -0.6981904, 0.7980104,  0.4295298,  -0.3510889, -0.6299403, -0.3521369,  -0.09805793,
              0.117164,   0.2188581,  1.17573,    0.9954544,  0.6141738,  0.008813505, -0.7938176,
              -0.6777099, 0.2891541,  0.7453893,  -0.3019694, 0.1189347,  1.01091,     1.129548,
              0.4121307,  -0.1591258, -0.5562959, -0.7440468});
}

TEST(ResamplingReference, ResizeLinearAntialias) {
  auto results =
      evaluated("resize", {ramp({1, 1, 5, 7}, 1), HostTensor(), floats({4}, {1, 1, 0.6, 0.5})},
                {{"mode", std::string("linear")}, {"antialias", int64_t(1)}});
  expectNear(results, 0, {1, 1, 3, 3},
             {-0.06250001, 0.2089844, 0.2050781, -0.2413194, 0.125, -0.1684028, -0.09570312,
              0.0410156, 0.3066406});
}

TEST(ResamplingReference, ResizeCubicAntialias) {
  auto results =
      evaluated("resize", {ramp({1, 1, 5, 7}, 1), HostTensor(), floats({4}, {1, 1, 0.6, 0.5})},
                {{"mode", std::string("cubic")}, {"antialias", int64_t(1)}});
  expectNear(results, 0, {1, 1, 3, 3},
             {-0.0886732, 0.2573791, 0.2641466, -0.1797862, 0.2211828, -0.3427069, -0.08981182,
              0.01244421, 0.3460589});
}

TEST(ResamplingReference, ResizeSizesOfAxes) {
  auto results = evaluated(
      "resize",
      {ramp({1, 1, 3, 4}, 1), HostTensor(), HostTensor(), integers(DataType::I64, {2}, {5, 2})},
      {{"mode", std::string("linear")}, {"axes", Integers{3, 2}}});
  expectNear(
      results, 0, {1, 1, 2, 5},
      {0.3125, -0.475, -0.296875, 0.096875, -0.1875, 0.03125, 0.753125, 0.5, -0.184375, -0.46875});
}

TEST(ResamplingReference, ResizeNotLarger) {
  auto results = evaluated(
      "resize",
      {ramp({1, 1, 3, 4}, 1), HostTensor(), HostTensor(), integers(DataType::I64, {2}, {5, 5})},
      {{"mode", std::string("linear")},
       {"axes", Integers{2, 3}},
       {"keep_aspect_ratio_policy", std::string("not_larger")}});
  expectNear(results, 0, {1, 1, 4, 5},
             {0,        -0.7875,  -0.25, 0.2875, -0.5,    0.875,  0.0875,
              -0.38125, -0.24625, 0.375, 0.4375, 0.65625, 0.1875, -0.28125,
              -0.0625,  -0.375,   0.85,  0.8125, -0.0875, -0.875});
}

TEST(ResamplingReference, ResizeNotSmaller) {
  auto results = evaluated(
      "resize",
      {ramp({1, 1, 3, 4}, 1), HostTensor(), HostTensor(), integers(DataType::I64, {2}, {5, 5})},
      {{"mode", std::string("nearest")},
       {"axes", Integers{2, 3}},
       {"keep_aspect_ratio_policy", std::string("not_smaller")}});
  expectNear(results, 0, {1, 1, 5, 7},
             {0,    0,    -1.125, 0.625,  0.625,  -0.5,   -0.5,  0,    0,    -1.125, 0.625,  0.625,
              -0.5, -0.5, 1.25,   1.25,   0.125,  -1,     -1,    0.75, 0.75, -0.375, -0.375, 1.375,
              0.25, 0.25, -0.875, -0.875, -0.375, -0.375, 1.375, 0.25, 0.25, -0.875, -0.875});
}

TEST(ResamplingReference, ResizeCropExtrapolates) {
  auto results =
      evaluated("resize",
                {ramp({1, 1, 3, 4}, 1), floats({8}, {0, 0, 0.25, -0.25, 1, 1, 1.5, 0.75}),
                 HostTensor(), integers(DataType::I64, {4}, {1, 1, 3, 3})},
                {{"mode", std::string("linear")},
                 {"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                 {"extrapolation_value", 10.0}});
  expectNear(results, 0, {1, 1, 3, 3},
             {10, -0.21875, -0.109375, 10, 0.8046875, -0.1640625, 10, 10, 10});
}

TEST(ResamplingReference, ResizeRoundsIntegers) {
  auto results = evaluated("resize",
                           {integers(DataType::U8, {1, 1, 2, 2}, {1, 255, 128, 7}), HostTensor(),
                            floats({4}, {1, 1, 1.5, 2})},
                           {{"mode", std::string("linear")}});
  expectNear(results, 0, {1, 1, 3, 4}, {1, 64, 192, 255, 64, 81, 114, 131, 128, 98, 37, 7});
}

TEST(ResamplingReference, GridSample_linear_zeros) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("linear")},
       {"padding_mode", std::string("zeros")},
       {"align_corners", int64_t(0)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0.03124997, -0.4375, 0.08937509, -0.007500016, 1.30625, -0.003750026, 0.04687496,
              0.4375, 0.6581252, 0.005625012, -0.5937499, -0.5375});
}

TEST(ResamplingReference, GridSample_linear_border) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("linear")},
       {"padding_mode", std::string("border")},
       {"align_corners", int64_t(1)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0.625, -0.4375, 0.1812501, -0.5, 0.8593751, -0.2799999, 0.0625, 0.4375, 0.9268749,
              0.375, -0.02656254, -0.325});
}

TEST(ResamplingReference, GridSample_linear_reflection) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("linear")},
       {"padding_mode", std::string("reflection")},
       {"align_corners", int64_t(0)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0.3125, -0.4375, 0.1375001, -0.5, 1.375, -0.003750026, 0.46875, 0.4375, 1.0125, 0.375,
              -0.625, -0.5375});
}

TEST(ResamplingReference, GridSample_nearest_zeros) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("nearest")},
       {"padding_mode", std::string("zeros")},
       {"align_corners", int64_t(0)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0, -1, 0.25, 0, 1.375, 0.75, 0, -0.125, 1.125, 0, -0.625, -1.25});
}

TEST(ResamplingReference, GridSample_nearest_border) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("nearest")},
       {"padding_mode", std::string("border")},
       {"align_corners", int64_t(1)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0, -1, 0.25, -0.5, 1.375, -1, 0.875, -0.125, 1.125, 0.375, -0.625, -0.125});
}

TEST(ResamplingReference, GridSample_nearest_reflection) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("nearest")},
       {"padding_mode", std::string("reflection")},
       {"align_corners", int64_t(0)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0, -1, 0.25, -0.5, 1.375, 0.75, 0.875, -0.125, 1.125, 0.375, -0.625, -1.25});
}

TEST(ResamplingReference, GridSample_cubic_zeros) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("cubic")},
       {"padding_mode", std::string("zeros")},
       {"align_corners", int64_t(0)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0.0369842, -0.7070312, 0.1669699, -0.008437105, 1.36325, 0.02772683, 0.04884002,
              0.7070312, 0.9187649, 0.008413435, -0.6554258, -0.7937301});
}

TEST(ResamplingReference, GridSample_cubic_border) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("cubic")},
       {"padding_mode", std::string("border")},
       {"align_corners", int64_t(1)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0.9310901, -0.7070312, 0.2136568, -0.7550173, 1.023518, -0.497548, -0.1188563,
              0.7070312, 1.00859, 0.7221618, -0.01401325, -0.39544});
}

TEST(ResamplingReference, GridSample_cubic_reflection) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 2, 3, 4}, 1),
       floats({1, 2, 3, 2}, {-1.2, -0.5, 0, 0, 0.3, 0.9, 1.1, -1.3, -0.25, 0.7, 0.6, 0.2})},
      {{"mode", std::string("cubic")},
       {"padding_mode", std::string("reflection")},
       {"align_corners", int64_t(0)}});
  expectNear(results, 0, {1, 2, 2, 3},
             {0.4230919, -0.7070312, 0.2624631, -0.7378505, 1.419531, 0.01341364, 0.4880383,
              0.7070312, 1.382144, 0.7246474, -0.682891, -0.6933535});
}

TEST(ResamplingReference, GridSampleVolume) {
  auto results = evaluated(
      "grid_sample",
      {ramp({1, 1, 2, 3, 4}, 1),
       floats({1, 1, 2, 2, 3}, {-0.9, 0.5, 0, 0.1, 0.3, 0.9, 1.1, -0.3, -0.25, 0.7, 0.6, 0.2})},
      {{"align_corners", int64_t(1)}});
  expectNear(results, 0, {1, 1, 1, 2, 2}, {0.203125, 0.3132187, -0.04382813, -0.0907501});
}

TEST(ResamplingReference, AffineGrid) {
  auto results = evaluated("affine_grid",
                           {ramp({1, 2, 3}, 1), integers(DataType::I64, {4}, {1, 1, 2, 3})}, {});
  expectNear(results, 0, {1, 2, 3, 2},
             {1.1875, -0.1666667, 1.1875, -0.5, 1.1875, -0.8333334, 0.0625, 1.083333, 0.0625, 0.75,
              0.0625, 0.4166667});
}

TEST(ResamplingReference, AffineGridOfVolumeAligned) {
  auto results =
      evaluated("affine_grid", {ramp({1, 3, 4}, 1), integers(DataType::I64, {5}, {1, 1, 2, 2, 3})},
                {{"align_corners", int64_t(1)}});
  expectNear(results, 0, {1, 2, 2, 3, 3},
             {0,     0.375,  -2.125, 0,     1.625,  -2.5, 0,     2.875, -2.875,
              -2.25, 0.625,  0.625,  -2.25, 1.875,  0.25, -2.25, 3.125, -0.125,
              1.25,  -1.625, -1.625, 1.25,  -0.375, -2,   1.25,  0.875, -2.375,
              -1,    -1.375, 1.125,  -1,    -0.125, 0.75, -1,    1.125, 0.375});
}

TEST(ResamplingReference, RoiAlign_avg_half_pixel) {
  auto results = evaluated("roi_align",
                           {ramp({2, 1, 5, 6}, 1), floats({2, 4}, {0.5, 1, 4.25, 4, 0, 0.2, 2, 6}),
                            integers(DataType::I64, {2}, {1, 0})},
                           {{"mode", std::string("avg")},
                            {"output_height", int64_t(2)},
                            {"output_width", int64_t(3)},
                            {"sampling_ratio", int64_t(0)},
                            {"spatial_scale", 0.75},
                            {"coordinate_transformation_mode", std::string("half_pixel")}});
  expectNear(results, 0, {2, 1, 2, 3},
             {-0.4028931, -0.5984497, 0.3458862, -0.5494385, -0.02062988, -0.04211426, -0.2942708,
              -0.2670573, -0.2126302, -0.0374999, -0.1660156, -0.4230469});
}

TEST(ResamplingReference, RoiAlign_avg_output_half_pixel) {
  auto results = evaluated("roi_align",
                           {ramp({2, 1, 5, 6}, 1), floats({2, 4}, {0.5, 1, 4.25, 4, 0, 0.2, 2, 6}),
                            integers(DataType::I64, {2}, {1, 0})},
                           {{"mode", std::string("avg")},
                            {"output_height", int64_t(2)},
                            {"output_width", int64_t(3)},
                            {"sampling_ratio", int64_t(0)},
                            {"spatial_scale", 0.75},
                            {"coordinate_transformation_mode", std::string("output_half_pixel")}});
  expectNear(results, 0, {2, 1, 2, 3},
             {-0.7536621, -0.1237793, -0.1003418, -0.0144043, 0.1662598, 0.5490723, -0.05429691,
              0.01210936, -0.1191406, -0.4345052, -0.3201823, -0.2388021});
}

TEST(ResamplingReference, RoiAlign_max_half_pixel) {
  auto results = evaluated("roi_align",
                           {ramp({2, 1, 5, 6}, 1), floats({2, 4}, {0.5, 1, 4.25, 4, 0, 0.2, 2, 6}),
                            integers(DataType::I64, {2}, {1, 0})},
                           {{"mode", std::string("max")},
                            {"output_height", int64_t(2)},
                            {"output_width", int64_t(3)},
                            {"sampling_ratio", int64_t(2)},
                            {"spatial_scale", 0.75},
                            {"coordinate_transformation_mode", std::string("half_pixel")}});
  expectNear(results, 0, {2, 1, 2, 3},
             {0.3131104, 0.3323364, 0.6344604, 0.2258301, 0.3723145, 0.3982544, 0.2460936,
              0.2153319, 0.4716798, 0.5523438, 0.4833009, 0.2495116});
}

TEST(ResamplingReference, RoiAlign_max_output_half_pixel) {
  auto results = evaluated("roi_align",
                           {ramp({2, 1, 5, 6}, 1), floats({2, 4}, {0.5, 1, 4.25, 4, 0, 0.2, 2, 6}),
                            integers(DataType::I64, {2}, {1, 0})},
                           {{"mode", std::string("max")},
                            {"output_height", int64_t(2)},
                            {"output_width", int64_t(3)},
                            {"sampling_ratio", int64_t(2)},
                            {"spatial_scale", 0.75},
                            {"coordinate_transformation_mode", std::string("output_half_pixel")}});
  expectNear(results, 0, {2, 1, 2, 3},
             {0.2736816, 0.357605, 0.6366577, 0.388916, 0.8843994, 0.9047241, 0.5981444, 0.4552734,
              0.4552734, 0.2241211, 0.5229492, 0.5229492});
}

TEST(ResamplingReference, MaxRoiPool) {
  auto results = evaluated("max_roi_pool",
                           {ramp({2, 1, 5, 6}, 1), floats({2, 5}, {1, 0, 0, 4, 3, 0, 1, 2, 5, 4})},
                           {{"pooled_shape", Integers{2, 3}}, {"spatial_scale", 1.0}});
  expectNear(results, 0, {2, 1, 2, 3},
             {0.75, 1.375, 1, 0.625, 1.25, 1.125, 0.5, 1.125, 1.125, 0.625, 1.25, 1.125});
}

} // namespace
} // namespace tensmith::reference
