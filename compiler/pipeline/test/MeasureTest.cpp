// Candidates that are right, wrong, too slow, too large or that die: each is told of as what it is,
// and the next is measured.
#include "compiler/pipeline/Measure.h"

#include "compiler/graph/Dialects.h"
#include "compiler/pipeline/ChildProcess.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/targets/Target.h"
#include "compiler/targets/cpu/test/KernelHarness.h"

#include "mlir/Parser/Parser.h"

#include <fstream>
#include <gtest/gtest.h>

namespace tensmith::pipeline {
namespace {

using Outcome = Measurement::Outcome;

/// A module that doubles or triples a tensor, say, with what it is run on and should give.
class Measuring : public testing::Test {
protected:
  Measuring() : context(mlir::MLIRContext::Threading::DISABLED) {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    targets::registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  Candidate candidate(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    auto function = module->lookupSymbol<mlir::func::FuncOp>("main");
    Candidate made{{}, drawnInputs(function), {}, 1e-5};
    made.expected = quickReference(function, made.inputs);
    auto bytes = compileToBytes(*module, {});
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    made.module = *bytes;
    return made;
  }

  Candidate scaled(const std::string &by) {
    return candidate(R"(
      func.func @main(%x: tensor<64x64xf32> {graph.name = "x"}) -> (tensor<64x64xf32> {graph.name = "y"}) {
        %s = graph.constant {value = dense<)" +
                     by + R"(> : tensor<f32>} : () -> tensor<f32>
        %y = graph.mul %x, %s : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
        return %y : tensor<64x64xf32>
      })");
  }

  mlir::MLIRContext context;
};

// Breaks if a time is none of a run, or results aren't held against the reference.
TEST_F(Measuring, ModulesAreTimedAndChecked) {
  Candidate right = scaled("2.0"), wrong = right;
  wrong.module = scaled("2.001").module;
  ASSERT_FALSE(right.expected.empty());
  auto measured = commandMeasurer({TENSMITH_MEASURE})->measure(std::array{right, wrong, right});
  ASSERT_EQ(measured.size(), 3u);
  for (size_t timed : {0, 2}) {
    EXPECT_EQ(measured[timed].outcome, Outcome::Timed) << measured[timed].why;
    EXPECT_GT(measured[timed].seconds, 0);
    EXPECT_EQ(measured[timed].results.size(), 1u);
  }
  EXPECT_EQ(measured[1].outcome, Outcome::Wrong) << measured[1].why;
  EXPECT_NE(measured[1].why.find("output 0: element "), std::string::npos) << measured[1].why;
}

// Breaks if memory beyond the limit is given, or a module of another machine ends the measuring.
TEST_F(Measuring, WhatIsTooLargeOrOfAnotherMachineIsToldOf) {
  Candidate large = candidate(R"(
    func.func @main(%x: tensor<1x50xf32> {graph.name = "x"}) -> (tensor<500000000x50xf32> {graph.name = "y"}) {
      %y = graph.broadcast %x : (tensor<1x50xf32>) -> tensor<500000000x50xf32>
      return %y : tensor<500000000x50xf32>
    })");
  EXPECT_TRUE(large.expected.empty()); // 100 GB, by the reference
  Candidate foreign = scaled("2.0");
  foreign.module.resize(foreign.module.size() / 2);
  auto measured =
      commandMeasurer({TENSMITH_MEASURE})->measure(std::array{large, foreign, scaled("3.0")});
  EXPECT_EQ(measured[0].outcome, Outcome::OutOfMemory) << measured[0].why;
  EXPECT_EQ(measured[1].outcome, Outcome::Refused) << measured[1].why;
  EXPECT_EQ(measured[1].why.find("/tmp"), std::string::npos) << measured[1].why;
  EXPECT_EQ(measured[2].outcome, Outcome::Timed) << measured[2].why;
}

// Breaks if a process that dies, hangs, hides a child that hangs, takes memory without end or
// prints nothing of use is taken for another of these, or ends the measuring.
TEST_F(Measuring, ProcessesMayDoAnything) {
  targets::cpu::TemporaryFolder folder;
  std::string runner = folder.path() + "/runner.sh";
  std::ofstream(runner) << R"(case $(cat "$1") in
    crash) kill -SEGV $$ ;;
    hang) sleep 1000 ;;
    hidden) sleep 1000 >/dev/null 2>&1 & echo $! > ")"
                        << folder.path() << R"(/pid" ; sleep 1000 ;;
    memory) echo "sh: there is not enough memory" >&2 ; exit 1 ;;
    signal) exit 139 ;;
    silent) ;;
    chatty) yes ;;
    esac)";
  std::vector<Candidate> candidates;
  for (const char *kind : {"crash", "hang", "hidden", "memory", "signal", "silent", "chatty"})
    candidates.push_back({kind, {}, {}, 0});
  auto measured = commandMeasurer({"/bin/sh", runner}, {.seconds = 0.5})->measure(candidates);
  auto of = [&](size_t number) { return std::string(nameOf(measured[number].outcome)); };
  EXPECT_EQ(of(0), "crashed") << measured[0].why;
  EXPECT_EQ(of(1), "timed out");
  EXPECT_EQ(of(2), "timed out");
  EXPECT_EQ(of(3), "out of memory");
  EXPECT_EQ(of(4), "crashed");
  EXPECT_EQ(of(5), "crashed");
  EXPECT_EQ(of(6), "timed out");
  int hidden = 0;
  std::ifstream(folder.path() + "/pid") >> hidden;
  ASSERT_GT(hidden, 0);
  for (int tries = 0; ::kill(hidden, 0) == 0 && tries < 1000; ++tries)
    ::usleep(10000); // until it is reaped
  EXPECT_NE(::kill(hidden, 0), 0);
  auto none = commandMeasurer({folder.path() + "/no such program"})->measure(candidates[0]);
  EXPECT_EQ(none.outcome, Outcome::NotStarted);
  EXPECT_NE(none.why.find("No such file"), std::string::npos) << none.why;
}

// Breaks if a process has more memory or CPUs than it may.
TEST(ChildProcess, LimitsHold) {
  auto bound = runChild({"nproc"}, {.cpus = 1});
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  EXPECT_EQ(bound->output, "1\n");
  auto greedy =
      runChild({"/bin/sh", "-c", "head -c 300000000 /dev/zero | tail -c 250000000 | wc -c"},
               {.memoryBytes = int64_t(100) << 20});
  ASSERT_TRUE(greedy.ok());
  EXPECT_EQ(greedy->output.find("250000000"), std::string::npos) << greedy->output;
}

} // namespace
} // namespace tensmith::pipeline
