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

  /// Operators of that kind after the rewrite, by a machine of those costs; null: the machine's
  /// own.
  template <typename Op>
  size_t countAfter(LogicalResult (*rewrite)(func::FuncOp, const Options &), const char *text,
                    const kernel::CostModel *costs) {
    Options options;
    if (costs)
      options.machine.costs = costs;
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context_);
    if (!module || failed(rewrite(*module->getOps<func::FuncOp>().begin(), options))) {
      ADD_FAILURE() << "the graph is not rewritten";
      return 0;
    }
    size_t count = 0;
    module->walk([&](Op) { ++count; });
    return count;
  }

  static DialectRegistry registry() {
    DialectRegistry registry;
    graph::registerDialects(registry);
    return registry;
  }

  MLIRContext context_;
};

// Breaks if what the sums around seven products take is estimated beside the machine's model.
TEST_F(CostModels, ProductsAreCutWhereSumsAreFree) {
  constexpr char kText[] = R"(
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<64x64xf32>} : () -> tensor<64x64xf32>
  %0 = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
})";
  FreeMemory free;
  EXPECT_EQ(countAfter<graph::MatMulOp>(strassen, kText, nullptr), 1u);
  EXPECT_EQ(countAfter<graph::MatMulOp>(strassen, kText, &free), 7u);
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
  EXPECT_EQ(countAfter<graph::TransposeOp>(chooseLayout, kText, nullptr), 2u);
  EXPECT_EQ(countAfter<graph::TransposeOp>(chooseLayout, kText, &free), 0u);
}

} // namespace
} // namespace tensmith::rewrite
