// Contractions by the reference evaluator, against values of ONNX Runtime, the onnx package's own
// reference or NumPy. A case breaks where a size, an order or a default of the operator is read
// differently than they do.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

TEST(ContractionReference, MatMulBroadcastsBatches) {
  auto results = evaluated("matmul", {ramp({2, 1, 3, 5}, 1), ramp({2, 5, 3}, 2)}, {});
  expectNear(results, 0, {2, 2, 3, 3},
             {-1.46875, 1.84375,   1.921875, -1.234375, 1.734375,  1.828125,  0.796875,  -1.609375,
              1.734375, -1.375,    -1.65625, 2.015625,  -1.265625, -1.890625, 2.15625,   -0.4375,
              1.828125, 1.21875,   1.03125,  -1.71875,  1.640625,  1.265625,  -1.828125, 1.546875,
              1.5,      -1.9375,   1.453125, -0.328125, 1.59375,   1.359375,  -0.21875,  1.359375,
              1.5,      -0.109375, 1.125,    1.640625});
}

TEST(ContractionReference, MatMulOfVector) {
  auto results = evaluated("matmul", {ramp({5}, 1), ramp({2, 5, 3}, 2)}, {});
  expectNear(results, 0, {2, 3}, {-1.46875, 1.84375, 1.921875, -1.375, -1.65625, 2.015625});
}

TEST(ContractionReference, MatMulByVector) {
  auto results = evaluated("matmul", {ramp({3, 5}, 1), ramp({5}, 4)}, {});
  expectNear(results, 0, {3}, {-1.609375, -1.515625, -0.34375});
}

TEST(ContractionReference, MatMulWrapsNarrowIntegers) {
  auto results = evaluated("matmul",
                           {integers(DataType::I8, {2, 3}, {100, -128, 127, 5, 6, -7}),
                            integers(DataType::I8, {3, 2}, {100, -3, 127, 127, -128, 9})},
                           {});
  expectNear(results, 0, {2, 2}, {16, -53, 110, -84});
}

TEST(ContractionReference, MatMulAccumulatesIn32Bits) {
  auto results = evaluated("matmul",
                           {integers(DataType::I8, {2, 3}, {100, -128, 127, 5, 6, -7}),
                            integers(DataType::I8, {3, 2}, {100, -3, 127, 127, -128, 9})},
                           {{"accumulate_i32", int64_t(1)}});
  expectNear(results, 0, {2, 2}, {-22512, -15413, 2158, 684});
}

TEST(ContractionReference, EinsumTransposesAndSums) {
  auto results = evaluated("einsum", {ramp({3, 4}, 1), ramp({4, 2}, 2)},
                           {{"equation", std::string("ij,jk->ki")}});
  expectNear(results, 0, {2, 3}, {0.640625, 2.140625, -2.109375, -1.46875, 1.234375, 1.421875});
}

TEST(ContractionReference, EinsumBroadcastsEllipsis) {
  auto results = evaluated("einsum", {ramp({2, 1, 2, 3}, 1), ramp({3, 3, 2}, 5)},
                           {{"equation", std::string("...ij,...jk->...ik")}});
  expectNear(results, 0, {2, 3, 2, 2},
             {0.203125, 0.765625, 0.71875, -0.265625, 0.703125, -1.96875, -0.15625, 1.015625,
              -2.03125, 0.328125, 1.125,   0.5,       0.15625,  0.859375, -1.125,   -1.96875,
              0.78125,  0.765625, -1.875,  1.953125,  0.6875,   0.3125,   2.046875, -1.3125});
}

TEST(ContractionReference, EinsumTakesDiagonal) {
  auto results = evaluated("einsum", {ramp({4, 4}, 1)}, {{"equation", std::string("ii->i")}});
  expectNear(results, 0, {4}, {0, 0.125, 0.25, 0.375});
}

TEST(ContractionReference, EinsumImplicitTrace) {
  auto results = evaluated("einsum", {ramp({5, 5}, 1)}, {{"equation", std::string("ii")}});
  expectNear(results, 0, {}, {-1.375});
}

TEST(ContractionReference, EinsumThreeOperands) {
  auto results = evaluated("einsum", {ramp({2, 3}, 1), ramp({3, 4}, 2), ramp({4, 2}, 3)},
                           {{"equation", std::string("ij,jk,kl->il")}});
  expectNear(results, 0, {2, 2}, {-2.033203, -1.328125, 1.5, 1.435547});
}

TEST(ContractionReference, EinsumImplicitOutputIsSorted) {
  auto results =
      evaluated("einsum", {ramp({2, 3}, 1), ramp({4, 3}, 7)}, {{"equation", std::string("ba,ca")}});
  expectNear(results, 0, {2, 4},
             {-1.390625, -1.140625, -0.890625, -0.640625, 1.9375, 1.5, 1.0625, -0.8125});
}

TEST(ContractionReference, DetOfStack) {
  auto results = evaluated("det", {ramp({2, 3, 3}, 3)}, {});
  expectNear(results, 0, {2}, {0.8984375, 1.617188});
}

} // namespace
} // namespace tensmith::reference
