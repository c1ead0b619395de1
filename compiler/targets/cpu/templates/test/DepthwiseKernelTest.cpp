// Depthwise convolutions whose operands are narrower in memory, against the reference evaluation.
#include "compiler/targets/cpu/templates/test/KernelRunner.h"

namespace tensmith::kernel {
namespace {

// Breaks if a machine that adds up pairs of bf16 takes two neighbouring channels for one.
TEST(DepthwiseKernel, HalvesAreNoPairs) {
  std::string text = R"(
func.func @main(%x: tensor<1x6x7x37xbf16>, %t: tensor<9x37xbf16>) -> tensor<1x6x7x37xbf16> {
  %k = "graph.kernel"(%x, %t) <{label = "k", kind = ""}> ({
  ^bb0(%a: tensor<1x6x7x37xbf16>, %b: tensor<9x37xbf16>):
    %n = graph.none : none
    %0 = graph.transpose %b {permutation = array<i64: 1, 0>} : (tensor<9x37xbf16>) -> tensor<37x9xbf16>
    %1 = graph.reshape %0 : (tensor<37x9xbf16>) -> tensor<37x1x3x3xbf16>
    %2 = graph.conv %a, %1, %n {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 37, layout = "channels_last"}
      : (tensor<1x6x7x37xbf16>, tensor<37x1x3x3xbf16>, none) -> tensor<1x6x7x37xbf16>
    graph.yield %2 : tensor<1x6x7x37xbf16>
  }) : (tensor<1x6x7x37xbf16>, tensor<9x37xbf16>) -> tensor<1x6x7x37xbf16>
  return %k : tensor<1x6x7x37xbf16>
})";
  Machine machine = hostKernelMachine();
  machine.intrinsics = {portableIntrinsic(Number::BF16, Number::BF16, Number::F32)};
  KernelRunner runner(text, machine);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ(runner.summary().substr(0, 9), "depthwise");
  auto inputs = runner.operands({});
  auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
  ASSERT_EQ(got.size(), 1u);
  for (int64_t i = 0; i < wanted[0].size(); ++i)
    ASSERT_NEAR(got[0].getDouble(i), wanted[0].getDouble(i),
                1e-2 * (1 + std::abs(wanted[0].getDouble(i))))
        << i;
}

/// A depthwise convolution of 3x3 with a bias, or with none.
std::string biased(bool isBiased) {
  std::string bias = isBiased ? "%c" : "%n", type = isBiased ? "tensor<37xf32>" : "none";
  return R"(
func.func @main(%x: tensor<1x6x7x37xf32>, %t: tensor<9x37xf32>, %b: tensor<37xf32>) -> tensor<1x6x7x37xf32> {
  %k = "graph.kernel"(%x, %t, %b) <{label = "k", kind = ""}> ({
  ^bb0(%a: tensor<1x6x7x37xf32>, %v: tensor<9x37xf32>, %c: tensor<37xf32>):
    %z = graph.transpose %v {permutation = array<i64: 1, 0>} : (tensor<9x37xf32>) -> tensor<37x9xf32>
    %w = graph.reshape %z : (tensor<37x9xf32>) -> tensor<37x1x3x3xf32>
    %n = graph.none : none
    %0 = graph.conv %a, %w, )" +
         bias +
         R"( {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 37, layout = "channels_last"}
      : (tensor<1x6x7x37xf32>, tensor<37x1x3x3xf32>, )" +
         type + R"() -> tensor<1x6x7x37xf32>
    graph.yield %0 : tensor<1x6x7x37xf32>
  }) : (tensor<1x6x7x37xf32>, tensor<9x37xf32>, tensor<37xf32>) -> tensor<1x6x7x37xf32>
  return %k : tensor<1x6x7x37xf32>
})";
}

size_t countOf(const std::string &what, const std::string &text) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

// Breaks if a bias is added to the sums, and they do not begin with it: an addition for each.
TEST(DepthwiseKernel, ABiasTakesNoAddition) {
  KernelRunner with(biased(true)), without(biased(false));
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with.summary().substr(0, 9), "depthwise");
  EXPECT_GT(countOf("math.fma", without.text()), 0u);
  for (const char *operation : {"math.fma", "arith.addf"})
    EXPECT_EQ(countOf(operation, with.text()), countOf(operation, without.text())) << operation;
}

} // namespace
} // namespace tensmith::kernel
