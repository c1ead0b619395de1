// Who does an operator, by a library that is the test's own: its library is nowhere, which nothing
// but a run would mind.
#include "compiler/libraries/Libraries.h"
#include "compiler/graph/Dialects.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/test/FunctionMeasurer.h"
#include "compiler/targets/Target.h"
#include "compiler/targets/cpu/test/KernelHarness.h"
#include "runtime/LibraryAbi.h"
#include "runtime/Module.h"
#include "runtime/plan_generated.h"

#include "mlir/Parser/Parser.h"

#include <bit>
#include <fstream>
#include <gtest/gtest.h>

namespace tensmith::pipeline {
namespace {

using targets::cpu::TemporaryFolder;

/// relu(x @ transpose(w) + b), tanh of that, and a sum with a product that is transposed on the
/// left.
constexpr char kGraph[] = R"(
func.func @main(%x: tensor<33x17xf32> {graph.name = "x"}, %w: tensor<19x17xf32> {graph.name = "w"},
                %b: tensor<19xf32> {graph.name = "b"}, %c: tensor<17x19xf32> {graph.name = "c"})
    -> (tensor<33x19xf32> {graph.name = "y"}, tensor<17x19xf32> {graph.name = "z"}) {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %rate = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<19x17xf32>) -> tensor<17x19xf32>
  %p = graph.matmul %x, %t : (tensor<33x17xf32>, tensor<17x19xf32>) -> tensor<33x19xf32> loc("first")
  %s = graph.add %p, %b : (tensor<33x19xf32>, tensor<19xf32>) -> tensor<33x19xf32>
  %r = graph.max %s, %zero : (tensor<33x19xf32>, tensor<f32>) -> tensor<33x19xf32>
  %y = graph.tanh %r : (tensor<33x19xf32>) -> tensor<33x19xf32>
  %u = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<33x17xf32>) -> tensor<17x33xf32>
  %q = graph.matmul %u, %y : (tensor<17x33xf32>, tensor<33x19xf32>) -> tensor<17x19xf32> loc("second")
  %g = graph.mul %q, %rate : (tensor<17x19xf32>, tensor<f32>) -> tensor<17x19xf32>
  %z = graph.sub %c, %g : (tensor<17x19xf32>, tensor<17x19xf32>) -> tensor<17x19xf32>
  return %y, %z : tensor<33x19xf32>, tensor<17x19xf32>
}
)";

/// Takes products up to a first relu.
libraries::Refusal takesUpToRelu(const libraries::Pattern &pattern) {
  bool takes = llvm::isa<graph::MatMulOp>(pattern.root) &&
               (pattern.steps.empty() || pattern.steps.back().kind == TENSMITH_STEP_RELU);
  return takes ? "" : "it is no product up to a relu";
}
/// Takes what is transposed on the left.
libraries::Refusal takesLeft(const libraries::Pattern &pattern) {
  return pattern.leftTransposed ? "" : "its left operand is not transposed";
}

class Libraries : public testing::Test {
protected:
  void SetUp() override {
    auto &libraries = libraries::knownLibraries();
    known_ = libraries.size();
    libraries.push_back({"relus", takesUpToRelu});
    libraries.push_back({"lefts", takesLeft});
  }
  void TearDown() override { libraries::knownLibraries().resize(known_); }

  struct Call {
    std::string symbol, schedule;
    std::vector<int64_t> sizes;
    size_t operands;
    bool operator==(const Call &) const = default;
  };

  /// The calls of libraries in what is compiled, by their order.
  std::vector<Call> calls(const CompileOptions &options, const char *graph = kGraph) {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    targets::registerDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(graph, &context);
    EXPECT_TRUE(module);
    auto made = compileWithoutCode(*module, options);
    status_ = made.status();
    if (!made.ok())
      return {};
    const plan::Module *plan = plan::GetModule(made->plan.data());
    std::vector<Call> result;
    for (const plan::Instruction *step : *plan->functions()->Get(0)->instructions()) {
      if (step->opcode() != plan::Opcode::Kernel)
        continue;
      const plan::Kernel *kernel = plan->kernels()->Get(step->target());
      if (kernel->symbol()->str().find(':') == std::string::npos)
        continue;
      Call call{kernel->symbol()->str(), kernel->schedule()->str(), {}, step->operands()->size()};
      for (uint32_t size : *step->sizes())
        call.sizes.push_back(plan->functions()->Get(0)->exprs()->Get(size)->a());
      result.push_back(std::move(call));
    }
    for (const plan::Attribute *attribute : *plan->metadata())
      if (attribute->name()->str() == "schedules")
        chosen_ = attribute->value_as_Text()->value()->str();
    return result;
  }

  std::vector<std::string> summaries(const CompileOptions &options) {
    std::vector<std::string> result;
    for (const Call &call : calls(options))
      result.push_back(call.schedule);
    return result;
  }

  CompileOptions by(const std::string &operators) {
    CompileOptions options;
    options.libraries = operators;
    options.verifyEachPass = true; // the calls' regions say what was there before
    return options;
  }

  size_t known_ = 0;
  Status status_;
  std::string chosen_;
};

using Texts = std::vector<std::string>;

TEST_F(Libraries, AreGeneratedUnlessSomebodyElseIsNamed) {
  EXPECT_EQ(summaries(CompileOptions()), Texts());
  EXPECT_EQ(summaries(by("generated")), Texts());
  EXPECT_EQ(chosen_.find("libraries"), std::string::npos);
}

TEST_F(Libraries, AreThoseOfTheFirstWhoTakesThem) {
  const std::string relus = "relus: matmul by transposed, add_columns, relu",
                    left = "lefts: transposed matmul, scale, subtract_from";
  EXPECT_EQ(summaries(by("relus")), (Texts{relus, "relus: transposed matmul"}));
  EXPECT_EQ(summaries(by("lefts")), Texts{left});
  EXPECT_EQ(summaries(by("lefts,relus")), (Texts{relus, left}));
  EXPECT_EQ(summaries(by("relus,lefts")), (Texts{relus, "relus: transposed matmul"}));
  EXPECT_EQ(summaries(by("generated,lefts")), Texts());
}

TEST_F(Libraries, AreCalledByTheContract) {
  auto made = calls(by("lefts,relus"));
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].symbol, "relus:tensmith_matmul");
  EXPECT_EQ(made[0].operands, 3u);
  EXPECT_EQ(made[0].sizes,
            (std::vector<int64_t>{1, 33, 19, 17, 0, 1, 0, 0, 2, TENSMITH_STEP_ADD_COLUMNS, 0,
                                  TENSMITH_STEP_RELU, 0}));
  EXPECT_EQ(made[1].operands, 3u);
  EXPECT_EQ(made[1].sizes,
            (std::vector<int64_t>{1, 17, 19, 33, 1, 0, 0, 0, 2, TENSMITH_STEP_SCALE,
                                  std::bit_cast<int64_t>(0.5), TENSMITH_STEP_SUBTRACT_FROM, 0}));
}

TEST_F(Libraries, AreMeasured) {
  CompileOptions options = by("measured");
  Texts warnings;
  options.warn = [&](const std::string &text) { warnings.push_back(text); };
  // By what is called in the module: the first product is faster by its library, the second not.
  options.measurer = measuredBy([](const std::string &bytes) -> Result<double> {
    bool relus = bytes.find("relus:") != bytes.npos, lefts = bytes.find("lefts:") != bytes.npos;
    if (bytes.find("onednn:") != bytes.npos || bytes.find("openblas:") != bytes.npos ||
        bytes.find("xsmm:") != bytes.npos)
      return unsupported("there is no such library");
    bool first = bytes.find("by transposed") != bytes.npos;
    return relus ? (first ? 0.5 : 2.0) : lefts ? 0.99 : 1.0;
  });
  EXPECT_EQ(summaries(options), Texts{"relus: matmul by transposed, add_columns, relu"});
  // Once for each that can't be loaded to be measured, and for the one that is called.
  ASSERT_EQ(warnings.size(), 4u);
  EXPECT_NE(warnings[3].find("calls libtensmith_relus.so, which can't be loaded here"),
            std::string::npos)
      << warnings[3];
  EXPECT_NE(chosen_.find(R"("libraries":"relus")"), std::string::npos) << chosen_;
  EXPECT_NE(chosen_.find(R"("libraries":"generated")"), std::string::npos) << chosen_;
  // What was chosen can be asked for without measuring, and otherwise for one kernel.
  TemporaryFolder folder;
  options.schedules = folder.path() + "/s.json";
  options.measurer = nullptr;
  std::ofstream(options.schedules) << "{\"schedules\": " << chosen_ << "}";
  EXPECT_EQ(summaries(options), Texts{"relus: matmul by transposed, add_columns, relu"});
  std::ofstream(options.schedules)
      << R"({"schedules": [{"nodes": ["second"], "libraries": "lefts"}]})";
  options.libraries = "relus";
  EXPECT_EQ(summaries(options), (Texts{"relus: matmul by transposed, add_columns, relu",
                                       "lefts: transposed matmul, scale, subtract_from"}));
}

// A generated kernel reads a slice as it lies, and sums what it computes; a library does neither.
TEST_F(Libraries, AreMeasuredWithWhatStandsAround) {
  constexpr char kSliced[] = R"(
func.func @main(%x: tensor<40x17xf32> {graph.name = "x"}, %w: tensor<17x19xf32> {graph.name = "w"})
    -> (tensor<33x19xf32> {graph.name = "y"}, tensor<40x17xf32> {graph.name = "z"}) {
  %z = graph.neg %x : (tensor<40x17xf32>) -> tensor<40x17xf32>
  %s = graph.slice %z {starts = array<i64: 3, 0>, steps = array<i64: 1, 1>} : (tensor<40x17xf32>) -> tensor<33x17xf32>
  %v = graph.abs %w : (tensor<17x19xf32>) -> tensor<17x19xf32>
  %p = graph.matmul %s, %v : (tensor<33x17xf32>, tensor<17x19xf32>) -> tensor<33x19xf32>
  %y = graph.erf %p : (tensor<33x19xf32>) -> tensor<33x19xf32>
  return %y, %z : tensor<33x19xf32>, tensor<40x17xf32>
}
)";
  CompileOptions options = by("measured");
  std::vector<std::string> candidates;
  options.measurer = measuredBy([&](const std::string &bytes) -> Result<double> {
    candidates.push_back(bytes);
    return 1.0;
  });
  EXPECT_EQ(calls(options, kSliced), std::vector<Call>());
  ASSERT_EQ(candidates.size(), 5u); // generated, openblas, onednn, xsmm and relus
  for (const std::string &bytes : candidates) {
    for (const char *part : {"slice", "abs", "matmul", "erf"})
      EXPECT_NE(bytes.find(part), std::string::npos) << part;
    EXPECT_EQ(bytes.find("neg"), std::string::npos); // others use it, too
  }
}

TEST_F(Libraries, AreRefusedByName) {
  calls(by("relu"));
  EXPECT_EQ(status_.message(),
            "no library is called 'relu'; there are generated, "
            "openblas, onednn, xsmm, relus, lefts, a list of them, and measured");
  for (const char *none : {"", "relus,", ",relus", "generated,relu", "relus,measured"}) {
    calls(by(none));
    EXPECT_EQ(status_.message().find("no library is called '"), 0u) << none;
  }
  for (const char *twice : {"relus,relus", "relus,lefts,relus", "generated,generated"}) {
    calls(by(twice));
    EXPECT_NE(status_.message().find("is named twice in the libraries '"), std::string::npos)
        << twice;
  }
  TemporaryFolder folder;
  CompileOptions options;
  options.schedules = folder.path() + "/s.json";
  std::ofstream(options.schedules) << R"({"schedules": [{"nodes": ["second"], "libraries": "x"}]})";
  calls(options);
  EXPECT_NE(status_.message().find("entry 1: \"libraries\" must be one of generated, openblas"),
            std::string::npos)
      << status_.message();
  // One who doesn't take it: the others are asked, with a warning.
  std::ofstream(options.schedules)
      << R"({"schedules": [{"nodes": ["first"], "libraries": "lefts"}]})";
  Texts warnings;
  options.warn = [&](const std::string &text) { warnings.push_back(text); };
  EXPECT_EQ(summaries(options), Texts());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("no kernel that it fits takes \"libraries\""), std::string::npos);
}

// A module may be made for another machine: it is told of, and no error.
TEST_F(Libraries, WarnOfALibraryThatIsNotHere) {
  CompileOptions options = by("lefts,relus");
  options.model = "m.onnx";
  Texts warnings;
  options.warn = [&](const std::string &text) { warnings.push_back(text); };
  EXPECT_EQ(calls(options).size(), 2u);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].find("m.onnx: the module calls libtensmith_lefts.so, which can't"), 0u);
  EXPECT_EQ(warnings[1].find("m.onnx: the module calls libtensmith_relus.so, which can't"), 0u);
  options.libraries = "generated";
  warnings.clear();
  calls(options);
  EXPECT_EQ(warnings, Texts());
}

// Plain loops do what a library is missing for, and the module says so.
TEST_F(Libraries, NeedTheirLibraryWhenTheyRun) {
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  targets::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto graph = mlir::parseSourceString<mlir::ModuleOp>(kGraph, &context);
  auto bytes = compileToBytes(*graph, by("relus"));
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto module = runtime::Module::loadBytes(std::as_bytes(std::span(*bytes)), {});
  ASSERT_TRUE(module.ok()) << module.status().message();
  const std::string &warning = (*module)->warning();
  EXPECT_EQ(warning.find("the module calls libtensmith_relus.so, which can't be loaded"), 0u)
      << warning;
  EXPECT_NE(warning.find("plain loops"), std::string::npos) << warning;
}

} // namespace
} // namespace tensmith::pipeline
