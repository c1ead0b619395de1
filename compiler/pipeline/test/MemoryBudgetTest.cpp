// What is computed again to keep to a budget goes by the kernels' times, where they are measured.
#include "compiler/graph/Dialects.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/test/FunctionMeasurer.h"
#include "compiler/targets/Target.h"
#include "files/Files.h"
#include "runtime/Module.h"
#include "runtime/plan_generated.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace tensmith::pipeline {
namespace {

constexpr int64_t kMatrixBytes = 96 * 96 * 4;

/// %a and %b wait while the way to the loss takes most memory.
constexpr char kGraph[] = R"(
!t = tensor<96x96xf32>
!wide = tensor<96x500xf32>
func.func @main(%x: !t {graph.name = "x"}, %w: !t {graph.name = "w"}, %v: !wide {graph.name = "v"})
    -> (tensor<f32> {graph.name = "loss"}, !t {graph.name = "y"}) {
  %a = graph.softmax %x {axis = 1 : i64} : (!t) -> !t
  %b = graph.log_softmax %x {axis = 1 : i64} : (!t) -> !t
  %p = graph.matmul %a, %b : (!t, !t) -> !t
  %m = graph.matmul %p, %v : (!t, !wide) -> !wide
  %loss = graph.reduce_sum %m {axes = array<i64: 0, 1>} : (!wide) -> tensor<f32>
  %q = graph.matmul %a, %w : (!t, !t) -> !t
  %y = graph.matmul %b, %q : (!t, !t) -> !t
  return %loss, %y : tensor<f32>, !t
}
)";

struct Compiled {
  std::map<std::string, int> calls; // of kernels, by label
  std::string recomputation;
  int64_t runBytes = 0;
};

Compiled compile(const CompileOptions &options) {
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  targets::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto parsed = mlir::parseSourceString<mlir::ModuleOp>(kGraph, &context);
  EXPECT_TRUE(parsed);
  auto bytes = compileToBytes(*parsed, options);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  Compiled result;
  auto module = runtime::Module::loadBytes(std::as_bytes(std::span(*bytes)), {});
  EXPECT_TRUE(module.ok()) << module.status().message();
  const plan::Module &plan = (*module)->plan();
  for (const plan::Instruction *step : *plan.functions()->Get(0)->instructions())
    if (step->opcode() == plan::Opcode::Kernel)
      ++result.calls[plan.kernels()->Get(step->target())->label()->str()];
  for (const plan::Attribute *attribute : *plan.metadata()) {
    if (attribute->name()->str() == "recomputation")
      result.recomputation = attribute->value_as_Text()->value()->str();
    if (attribute->name()->str() == "run_bytes_planned")
      result.runBytes = attribute->value_as_Integer()->value();
  }
  return result;
}

/// Room for one of %a and %b less.
CompileOptions tight() {
  CompileOptions options;
  options.memoryBudget = compile({}).runBytes - kMatrixBytes / 2;
  return options;
}

TEST(MemoryBudget, IsMetByWhatTakesLeastTime) {
  CompileOptions options = tight();
  for (const std::string dear : {"softmax", "log_softmax"}) {
    SCOPED_TRACE(dear);
    std::set<std::string> measured;
    options.measurer = measuredBy([&](const std::string &bytes) -> Result<double> {
      auto module = runtime::Module::loadBytes(std::as_bytes(std::span(bytes)), {});
      if (!module.ok())
        return module.status();
      EXPECT_TRUE(measured.insert(bytes).second); // once each
      EXPECT_EQ((*module)->plan().kernels()->size(), 1u);
      return (*module)->plan().kernels()->Get(0)->label()->str() == dear ? 1.0 : 1e-3;
    });
    Compiled made = compile(options);
    EXPECT_EQ(made.calls[dear], 1) << made.recomputation;
    EXPECT_EQ(made.calls[dear == "softmax" ? "log_softmax" : "softmax"], 2) << made.recomputation;
    EXPECT_NE(made.recomputation.find("1 kernels run again, 0.1 % of the measured time"),
              std::string::npos)
        << made.recomputation;
    EXPECT_LE(made.runBytes, options.memoryBudget);
  }
}

// Breaks if another budget measures all again, or a kernel has the time of another.
TEST(MemoryBudget, KernelsAreTimedOnce) {
  TemporaryFolder folder;
  CompileOptions options = tight();
  options.cacheFolder = (folder.path() / "cache").string();
  int measured = 0;
  options.measurer = measuredBy([&](const std::string &bytes) -> Result<double> {
    auto module = runtime::Module::loadBytes(std::as_bytes(std::span(bytes)), {});
    ++measured;
    return (*module)->plan().kernels()->Get(0)->label()->str() == "softmax" ? 1.0 : 1e-3;
  });
  std::string first = compile(options).recomputation;
  int once = std::exchange(measured, 0);
  EXPECT_GT(once, 1);
  EXPECT_EQ(compile(options).recomputation, first);
  options.memoryBudget += 16;
  EXPECT_EQ(compile(options).recomputation, first);
  EXPECT_EQ(measured, 0);
  options.cacheFolder.clear();
  EXPECT_EQ(compile(options).recomputation, first);
  EXPECT_EQ(measured, once);
}

TEST(MemoryBudget, GoesByEstimatesWhereNothingIsMeasured) {
  CompileOptions options = tight();
  std::string warning;
  options.warn = [&](const std::string &text) { warning = text; };
  options.measurer = measuredBy(
      [](const std::string &) -> Result<double> { return unsupported("another machine's"); });
  Compiled made = compile(options);
  EXPECT_NE(made.recomputation.find("work as estimated"), std::string::npos) << made.recomputation;
  EXPECT_NE(warning.find("another machine's"), std::string::npos) << warning;
  EXPECT_LE(made.runBytes, options.memoryBudget);
}

} // namespace
} // namespace tensmith::pipeline
