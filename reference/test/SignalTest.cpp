// Transforms and windows of signals by the reference evaluator, against values of ONNX Runtime, the
// onnx package's own reference or NumPy. A case breaks where a size, an order or a default of the
// operator is read differently than they do.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

TEST(SignalReference, DftOfOddLength) {
  auto results =
      evaluated("dft", {ramp({1, 5, 2, 2}, 1), HostTensor(), integers(DataType::I64, {}, {1})}, {});
  expectNear(results, 0, {1, 5, 2, 2},
             {1,          1.125,     -1.625,     -1.5,       -0.1270234, -2.854882, 2.354882,
              -0.3729766, -2.309779, -4.051891,  3.551891,   1.809779,   1.809779,  0.6768911,
              -1.176891,  -2.309779, -0.3729766, -0.5201185, 0.02011853, -0.1270234});
}

TEST(SignalReference, DftOnesided) {
  auto results = evaluated("dft", {ramp({1, 6, 1}, 1)}, {{"onesided", int64_t(1)}});
  expectNear(results, 0, {1, 4, 2},
             {0.375, 0, -0.9375, 1.623798, -0.9375, 0.5412659, 3.375, -1.110223e-16});
}

TEST(SignalReference, DftPadsToLength) {
  auto results = evaluated("dft", {ramp({1, 3, 1}, 1), integers(DataType::I64, {}, {6})}, {});
  expectNear(
      results, 0, {1, 6, 2},
      {-0.5, 0, -0.875, 0.4330127, 0.25, 1.515544, 1.75, 0, 0.25, -1.515544, -0.875, -0.4330127});
}

TEST(SignalReference, DftTruncates) {
  auto results = evaluated("dft", {ramp({1, 7, 1}, 1), integers(DataType::I64, {}, {4})},
                           {{"onesided", int64_t(1)}});
  expectNear(results, 0, {1, 3, 2}, {-1, 0, -0.625, 0.625, 2.25, 0});
}

TEST(SignalReference, DftInverse) {
  auto results = evaluated("dft", {ramp({1, 6, 2}, 1)}, {{"inverse", int64_t(1)}});
  expectNear(results, 0, {1, 6, 2},
             {0.125, -0.04166667, 0.292962, -0.2634082, -0.5470486, -0.2533386, 0.1666667,
              0.1666667, -0.07795145, 0.1075053, 0.0403713, -0.8407585});
}

TEST(SignalReference, DftInverseOnesided) {
  auto results =
      evaluated("dft", {ramp({1, 4, 2}, 1)}, {{"inverse", int64_t(1)}, {"onesided", int64_t(1)}});
  expectNear(results, 0, {1, 6, 1},
             {0.4583333, 0.1707532, -0.2987447, 0.375, -0.6595886, -0.04575316});
}

TEST(SignalReference, DftInverseOnesidedOddLength) {
  auto results = evaluated("dft", {ramp({1, 4, 2}, 1), integers(DataType::I64, {}, {7})},
                           {{"inverse", int64_t(1)}, {"onesided", int64_t(1)}});
  expectNear(results, 0, {1, 7, 1},
             {0.25, 0.2731817, -0.2173439, 0.006357874, 0.2443722, -0.8619571, 0.3053891});
}

TEST(SignalReference, Stft) {
  auto results =
      evaluated("stft", {ramp({1, 9, 1}, 1), integers(DataType::I64, {}, {2}), ramp({4}, 3)}, {});
  expectNear(results, 0, {1, 3, 3, 2},
             {2.03125, 0, -0.3125, -1.09375, -1.40625, 0, 1.09375, 0, -0.703125, -0.703125, 0, 0,
              -1.28125, 0, 0.34375, -0.3125, -0.03125, 0});
}

TEST(SignalReference, StftWithoutWindowTwosided) {
  auto results = evaluated("stft",
                           {ramp({1, 9, 1}, 1), integers(DataType::I64, {}, {3}), HostTensor(),
                            integers(DataType::I64, {}, {5})},
                           {{"onesided", int64_t(0)}});
  expectNear(results, 0, {1, 2, 5, 2},
             {0.25,      0,        -0.0625,   1.597501,  -0.0625,   2.465929,  -0.0625,
              -2.465929, -0.0625,  -1.597501, 0.625,     0,         0.8259239, -1.136787,
              -2.388424, 0.776046, -2.388424, -0.776046, 0.8259239, 1.136787});
}

TEST(SignalReference, HannWindowSymmetric) {
  auto results =
      evaluated("window", {integers(DataType::I64, {}, {5})},
                {{"kind", std::string("hann")}, {"to", int64_t(1)}, {"periodic", int64_t(0)}});
  expectNear(results, 0, {5}, {0, 0.5, 1, 0.5, 7.642743e-15});
}

TEST(SignalReference, HannWindowPeriodic) {
  auto results =
      evaluated("window", {integers(DataType::I64, {}, {5})},
                {{"kind", std::string("hann")}, {"to", int64_t(1)}, {"periodic", int64_t(1)}});
  expectNear(results, 0, {5}, {0, 0.3454915, 0.9045085, 0.9045085, 0.3454914});
}

TEST(SignalReference, HammingWindowSymmetric) {
  auto results =
      evaluated("window", {integers(DataType::I64, {}, {5})},
                {{"kind", std::string("hamming")}, {"to", int64_t(1)}, {"periodic", int64_t(0)}});
  expectNear(results, 0, {5}, {0.08695652, 0.5434783, 1, 0.5434783, 0.08695652});
}

TEST(SignalReference, HammingWindowPeriodic) {
  auto results =
      evaluated("window", {integers(DataType::I64, {}, {5})},
                {{"kind", std::string("hamming")}, {"to", int64_t(1)}, {"periodic", int64_t(1)}});
  expectNear(results, 0, {5}, {0.08695652, 0.4024053, 0.9128121, 0.9128121, 0.4024052});
}

TEST(SignalReference, BlackmanWindowSymmetric) {
  auto results =
      evaluated("window", {integers(DataType::I64, {}, {5})},
                {{"kind", std::string("blackman")}, {"to", int64_t(1)}, {"periodic", int64_t(0)}});
  expectNear(results, 0, {5}, {0, 0.34, 1, 0.34, 0});
}

TEST(SignalReference, BlackmanWindowPeriodic) {
  auto results =
      evaluated("window", {integers(DataType::I64, {}, {5})},
                {{"kind", std::string("blackman")}, {"to", int64_t(1)}, {"periodic", int64_t(1)}});
  expectNear(results, 0, {5}, {0, 0.2007701, 0.8492299, 0.8492299, 0.2007701});
}

TEST(SignalReference, MelWeightMatrix) {
  auto results =
      evaluated("mel_weight_matrix",
                {integers(DataType::I64, {}, {3}), integers(DataType::I64, {}, {16}),
                 integers(DataType::I64, {}, {8192}), floats({}, {0}), floats({}, {4096})},
                {{"to", int64_t(1)}});
  expectNear(results, 0, {9, 3}, {1,   0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0,
                                  0.5, 0, 0, 0, 0, 0, 0, 0,   0,   0, 0, 0, 0});
}

} // namespace
} // namespace tensmith::reference
