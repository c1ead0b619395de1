// A rewrite that changes a result is named, and one that doesn't is not; what a failed compilation
// leaves can be compiled again.
#include "compiler/pipeline/Verification.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/targets/Target.h"
#include "compiler/targets/cpu/test/KernelHarness.h"

#include "mlir/Parser/Parser.h"

#include <fstream>
#include <gtest/gtest.h>

namespace tensmith::pipeline {
namespace {

constexpr char kGraph[] = R"(
func.func @main(%x: tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>)
    -> (tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>> {graph.name = "y"}) {
  %a = "graph.neg"(%x) : (tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>)
      -> tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>
  %b = "graph.tanh"(%a) : (tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>)
      -> tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>
  return %b : tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>
})";

class Passes : public ::testing::Test {
protected:
  Passes() : context(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
    module = mlir::parseSourceString<mlir::ModuleOp>(kGraph, &context);
    function = module->lookupSymbol<mlir::func::FuncOp>("main");
  }

  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    targets::registerDialects(registry);
    return registry;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
};

TEST_F(Passes, ThatChangeAResultAreNamed) {
  PassVerification verification;
  ASSERT_TRUE(verification.begin(function).ok());
  EXPECT_TRUE(verification.check(function, "nothing").ok());
  mlir::Operation *neg = &function.getBody().front().front();
  neg->getResult(0).replaceAllUsesWith(neg->getOperand(0));
  Status status = verification.check(function, "drop-neg");
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_NE(status.message().find("rewrite 'drop-neg' changed output 'y': it has "),
            std::string::npos)
      << status.message();
}

TEST_F(Passes, LeaveAReproducerWhereACompilationFails) {
  targets::cpu::TemporaryFolder folder;
  CompileOptions options;
  options.reproducer = folder.path() + "/again.mlir";
  options.verifyEachPass = true;
  EXPECT_TRUE(compileToBytes(*module, options).ok());
  EXPECT_FALSE(std::ifstream(options.reproducer)) << "nothing failed";
  function.setName("other");
  auto failed = compileToBytes(*module, options);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().message().find(options.reproducer), std::string::npos);
  auto again = mlir::parseSourceFile<mlir::ModuleOp>(options.reproducer, &context);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->lookupSymbol("other"));
}

} // namespace
} // namespace tensmith::pipeline
