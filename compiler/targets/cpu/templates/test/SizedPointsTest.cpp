// Kernels of open sizes that choose between points at run time.
#include "compiler/targets/cpu/templates/test/KernelRunner.h"

namespace tensmith::kernel {
namespace {

// Breaks if a kernel of several points takes another one's work items, or does another one's work.
TEST(LoopKernel, ChoosesBetweenPointsBySizes) {
  const auto &choices = hostKernelMachine().templates->find("loops")->choices;
  const Choice *elements =
      *llvm::find_if(choices, [](const Choice *choice) { return choice->name == "item_elements"; });
  std::vector<SizedPoint> points;
  for (auto [size, block] : {std::pair(2, 1), {8, 32}, {64, 7}}) {
    points.push_back({{}, {size}});
    points.back().point.set(*elements, block);
  }
  std::string x = R"(tensor<?x32xf32, #graph.dims<["n"], ()[s0] -> (s0, 32)>>)";
  std::string text = "func.func @main(%x: " + x + ") -> " + x + R"( {
    %k = "graph.kernel"(%x) <{label = "k", kind = ""}> ({
    ^bb0(%a: )" + x + R"():
      %0 = graph.tanh %a : ()" +
                     x + ") -> " + x + "\n graph.yield %0 : " + x + "\n}) : (" + x + ") -> " + x +
                     "\n return %k : " + x + "\n}";
  KernelRunner runner(text, hostKernelMachine(), points);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ(runner.summary(), "loops; or loops; or loops");
  // Between two of them the geometric mean decides.
  for (auto [size, items] :
       {std::pair(0, 0), {1, 32}, {3, 96}, {4, 4}, {22, 22}, {23, 115}, {500, 2500}}) {
    auto inputs = runner.operands({{"n", size}});
    auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
    EXPECT_EQ(runner.items(), items) << size;
    for (int64_t i = 0; i < got[0].size(); ++i)
      ASSERT_NEAR(got[0].getDouble(i), wanted[0].getDouble(i), 1e-5) << size << " " << i;
  }
}

} // namespace
} // namespace tensmith::kernel
