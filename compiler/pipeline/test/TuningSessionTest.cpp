// Kernels by themselves: that a candidate has the key that was asked for, that points change code
// and features but no results, and what is refused.
#include "compiler/pipeline/TuningSession.h"

#include "compiler/graph/Dialects.h"
#include "compiler/pipeline/ScheduleSource.h"
#include "compiler/targets/Target.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tensmith;
using namespace tensmith::pipeline;

namespace {

constexpr char kProduct[] = R"mlir(
func.func @main(%x: tensor<24x32xf32> {graph.name = "x"}, %w: tensor<32x48xf32> {graph.name = "w"}) -> (tensor<24x48xf32> {graph.name = "y"}) {
  %y = graph.matmul %x, %w : (tensor<24x32xf32>, tensor<32x48xf32>) -> tensor<24x48xf32>
  return %y : tensor<24x48xf32>
}
)mlir";

class Tuning : public testing::Test {
protected:
  Tuning() : context(registry(), MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(kProduct, &context);
    options.target = "x86-64-v3";
    options.model = "product";
  }

  static DialectRegistry registry() {
    DialectRegistry registry;
    graph::registerDialects(registry);
    targets::registerDialects(registry);
    return registry;
  }

  double featureOf(const std::vector<double> &features, StringRef name) {
    for (auto [number, feature] : llvm::enumerate(loopFeatureNames()))
      if (feature.name == name)
        return features[number];
    ADD_FAILURE() << "there is no feature " << name.str();
    return 0;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  CompileOptions options;
};

} // namespace

TEST_F(Tuning, MakesKernelsByThemselvesByTheirPoints) {
  ASSERT_TRUE(module);
  auto session = TuningSession::open(*module, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const TuningSession::Kernel *product = nullptr;
  for (const TuningSession::Kernel &kernel : (*session)->kernels()) {
    EXPECT_EQ(kernel.untunable, "");
    if (kernel.offered.getString("template") == "contraction")
      product = &kernel;
  }
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->uses, 1);
  EXPECT_EQ(product->flops, 2 * 24 * 32 * 48);
  auto features = [&](const char *choices) {
    auto result = (*session)->features(product->key, choices);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : std::vector<double>(loopFeatureNames().size());
  };
  std::vector<double> few = features("\"panel_vectors\":2,\"steps\":1,\"tile_rows\":4"),
                      many = features("\"panel_vectors\":2,\"steps\":1,\"tile_rows\":6");
  ASSERT_EQ(few.size(), loopFeatureNames().size());
  // A tile of more rows carries more accumulators (one of three or fewer has its rows several
  // times, from places of the weights that lie apart).
  EXPECT_GT(featureOf(many, "hot1.carried"), featureOf(few, "hot1.carried"));
  auto one = (*session)->build(product->key, "\"tile_rows\":1"),
       other = (*session)->build(product->key, "\"tile_rows\":4");
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->candidate.module, other->candidate.module);
  // What was seen while machine code was made is what is seen without.
  std::vector<double> built = features("\"tile_rows\":4");
  features("\"tile_rows\":1");
  ASSERT_TRUE((*session)->build(product->key, "\"tile_rows\":1").ok());
  EXPECT_EQ(features("\"tile_rows\":4"), built);
}

TEST_F(Tuning, RefusesWhatIsNoKernelOrChoice) {
  auto session = TuningSession::open(*module, options);
  ASSERT_TRUE(session.ok());
  EXPECT_FALSE((*session)->build("0000000000000000", "").ok());
  ASSERT_FALSE((*session)->kernels().empty());
  auto refused = (*session)->build((*session)->kernels().front().key, "\"rows_of_tile\":1");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("is no choice"), std::string::npos);
}
