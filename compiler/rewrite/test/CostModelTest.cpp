// Rewrites choose by the cost model of the machine that they are given, and by nothing else.
#include "compiler/kernel/CostModel.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Whose memory is as fast as one likes.
class FreeMemory : public kernel::CostModel {
public:
  using CostModel::cyclesOf;
  double cyclesOf(const kernel::Machine &, const kernel::Traffic &) const override { return 0; }
};

/// Which passes windows in no time, whatever steps they take.
class FreeWindows : public kernel::CostModel {
public:
  using CostModel::cyclesOf;
  double cyclesOf(const kernel::Machine &, const kernel::Windows &) const override { return 0; }
};

class CostModels : public testing::Test {
protected:
  CostModels() : context_(registry()) { context_.loadAllAvailableDialects(); }

  OwningOpRef<ModuleOp> parsed(const std::string &text) {
    return parseSourceString<ModuleOp>(text, &context_);
  }

  static DialectRegistry registry() {
    DialectRegistry registry;
    graph::registerDialects(registry);
    return registry;
  }

  MLIRContext context_;
};

template <typename Op> size_t count(ModuleOp module) {
  size_t result = 0;
  module.walk([&](Op) { ++result; });
  return result;
}

// Breaks if what the sums around seven products take is estimated beside the machine's model.
TEST_F(CostModels, ProductsAreCutWhereSumsAreFree) {
  constexpr char kText[] = R"(
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<64x64xf32>} : () -> tensor<64x64xf32>
  %0 = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
})";
  FreeMemory free;
  for (bool isFree : {false, true}) {
    Options options;
    if (isFree)
      options.machine.costs = &free;
    auto module = parsed(kText);
    ASSERT_TRUE(module);
    ASSERT_TRUE(succeeded(strassen(*module->getOps<func::FuncOp>().begin(), options)));
    EXPECT_EQ(count<graph::MatMulOp>(*module), isFree ? 7u : 1u);
  }
}

// Breaks if the cycles of a pool's windows stand beside the machine's model: where they are free,
// transpositions are not worth it.
TEST_F(CostModels, PoolsStayAsTheyAreWhereWindowsAreFree) {
  constexpr char kText[] = R"(
func.func @main(%x: tensor<1x16x40x40xf32>) -> tensor<1x16x18x18xf32> {
  %0 = graph.max_pool %x {kernel = array<i64: 5, 5>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x16x40x40xf32>) -> tensor<1x16x18x18xf32>
  return %0 : tensor<1x16x18x18xf32>
})";
  FreeWindows free;
  for (bool isFree : {false, true}) {
    Options options;
    if (isFree)
      options.machine.costs = &free;
    auto module = parsed(kText);
    ASSERT_TRUE(module);
    ASSERT_TRUE(succeeded(chooseLayout(*module->getOps<func::FuncOp>().begin(), options)));
    EXPECT_EQ(count<graph::TransposeOp>(*module), isFree ? 0u : 2u);
  }
}

} // namespace
} // namespace tensmith::rewrite
