// Rewrites choose by the cost model of the machine that they are given, and by nothing else.
#include "compiler/kernel/CostModel.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/FourierCost.h"
#include "compiler/rewrite/PassCost.h"
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

// Breaks if planes are taken to be as near in memory as in a cache, or as cheap to write where they
// share sets of the caches as elsewhere.
TEST(PlaneCosts, PlanesThatLieAPowerOfTwoApartTakeLonger) {
  kernel::Machine machine;
  auto cycles = [&](double bytes, int64_t stride) {
    return kernel::cyclesOf(kernel::PlaneAccess{bytes / 32, bytes, stride}, machine) / bytes;
  };
  constexpr double kNear = 100 << 10, kFar = 8 << 20, kInMemory = 256 << 20;
  EXPECT_EQ(cycles(kNear, 4096), 0);
  EXPECT_LT(cycles(kFar, 4160), cycles(kFar, 5120));
  EXPECT_LT(cycles(kFar, 5120), cycles(kFar, 4096));
  EXPECT_LT(2 * cycles(kFar, 4160), cycles(kInMemory, 4160));
  kernel::PlaneTraffic near{kNear}, packed{kNear, true}, far{kFar}, inMemory{kInMemory};
  EXPECT_EQ(kernel::cyclesOf(near, machine), 0);
  EXPECT_GT(kernel::cyclesOf(packed, machine), 0);
  EXPECT_LT(2 * kernel::cyclesOf(far, machine) / kFar,
            kernel::cyclesOf(inMemory, machine) / kInMemory);
}

/// The plain time of a pass over images of 64 x 64 with a window of 9, by that of its best
/// transform.
double plainByTransformed(PassKind kind, int64_t images, int64_t in, int64_t out) {
  PassSizes sizes{images, in, out, 1, {64, 64}, {56, 56}, {9, 9}, {9, 9}};
  kernel::Machine machine;
  PassCost cost(machine, sizes);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t size : fourierSizes(sizes.window)) {
    FourierTile tile = *fourierTile(sizes.window, size);
    double cycles = cost.own(kind, tile);
    cycles += kind != PassKind::Image ? cost.ofImage(tile) : 0;
    cycles += kind != PassKind::Output ? cost.ofOutputs(tile) : 0;
    least = std::min(least, cycles);
  }
  return cost.plain(kind) / least;
}

// Breaks if few channels are taken for many: a convolution of one channel is a small product, whose
// transforms fill a part of each vector; the gradient of its weights is one of shifted images, but
// one of many channels copies each under each tap.
TEST(PassCosts, PassesOfFewChannelsStayPlainWhereThatIsFaster) {
  EXPECT_LT(plainByTransformed(PassKind::Output, 4, 1, 16), 0.8);
  EXPECT_GT(plainByTransformed(PassKind::Output, 4, 64, 64), 2);
  EXPECT_LT(plainByTransformed(PassKind::Weights, 4, 1, 16), 1);
  EXPECT_GT(plainByTransformed(PassKind::Weights, 4, 64, 1), 4);
}

} // namespace
} // namespace tensmith::rewrite
