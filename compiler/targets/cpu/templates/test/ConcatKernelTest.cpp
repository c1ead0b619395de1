// Concatenations in any number of pieces, against the reference evaluation.
#include "compiler/targets/cpu/templates/test/KernelRunner.h"

namespace tensmith::kernel {
namespace {

/// A kernel that joins two tensors along an axis, and negates the result.
std::string joined(const std::string &a, const std::string &b, const std::string &y, int axis) {
  return "func.func @main(%a: " + a + ", %b: " + b + ") -> " + y +
         " {\n  %k = \"graph.kernel\"(%a, %b) <{label = \"k\", kind = \"concat\"}> ({\n  "
         "^bb0(%c: " +
         a + ", %d: " + b + "):\n    %0 = graph.concat %c, %d {axis = " + std::to_string(axis) +
         " : i64} : (" + a + ", " + b + ") -> " + y + "\n    %1 = graph.neg %0 : (" + y + ") -> " +
         y + "\n    graph.yield %1 : " + y + "\n  }) : (" + a + ", " + b + ") -> " + y +
         "\n  return %k : " + y + "\n}";
}

void expectSame(const std::string &text, std::map<std::string, int64_t> sizes) {
  const Choice *pieces = hostKernelMachine().templates->find("concat")->choices[0];
  for (int64_t count : {0, 1, 2, 5, 64}) { // 0: unasked
    SizedPoint point;
    if (count)
      point.point.set(*pieces, count);
    KernelRunner runner(text, hostKernelMachine(), point);
    ASSERT_TRUE(runner.ok());
    auto inputs = runner.operands(sizes);
    auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
    EXPECT_EQ(runner.failure(), 0);
    ASSERT_EQ(got[0].shape(), wanted[0].shape());
    for (int64_t i = 0; i < got[0].size(); ++i)
      ASSERT_EQ(got[0].getDouble(i), wanted[0].getDouble(i)) << count << " pieces, element " << i;
  }
}

// Breaks where a piece begins or ends in the wrong input, or leaves a vector's rest.
TEST(ConcatKernel, OfKnownSizesInPieces) {
  expectSame(joined("tensor<3x7xf32>", "tensor<4x7xf32>", "tensor<7x7xf32>", 0), {});
  expectSame(joined("tensor<2x5x3xf32>", "tensor<2x1x3xf32>", "tensor<2x6x3xf32>", 1), {});
  expectSame(joined("tensor<2x33xf32>", "tensor<2x70xf32>", "tensor<2x103xf32>", 1), {});
  expectSame(joined("tensor<0x3xf32>", "tensor<2x3xf32>", "tensor<2x3xf32>", 0), {});
}

// Breaks where open sizes give pieces that are empty, or overlap.
TEST(ConcatKernel, OfOpenSizesInPieces) {
  const std::string a = "tensor<?x3xf32, #graph.dims<[\"n\"], ()[s0] -> (s0, 3)>>",
                    b = "tensor<?x3xf32, #graph.dims<[\"m\"], ()[s0] -> (s0, 3)>>",
                    y = "tensor<?x3xf32, #graph.dims<[\"m\", \"n\"], ()[s0, s1] -> (s0 + s1, 3)>>";
  for (auto [n, m] : {std::pair{1, 1}, {0, 5}, {40, 3}, {17, 18}})
    expectSame(joined(a, b, y, 0), {{"n", n}, {"m", m}});
}

} // namespace
} // namespace tensmith::kernel
