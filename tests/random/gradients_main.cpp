// random-gradients: derivatives against differences, of single operators and of drawn graphs.
//
//   random-gradients --each 6             six graphs of each operator, as the test does
//   random-gradients --operator conv --each 50 --second
//   random-gradients --graphs 200         whole graphs
//   random-gradients --check loop.mlir    one graph; its inputs have random.seed and random.kind
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Gradient.h"
#include "compiler/targets/Target.h"
#include "tests/random/Generator.h"
#include "tests/random/Gradients.h"

#include "mlir/Parser/Parser.h"

#include <CLI/CLI.hpp>
#include <cstdio>

using namespace tensmith::random_graphs;
namespace graph = tensmith::graph;

namespace {

struct Settings {
  uint64_t first = 1, each = 0, graphs = 0;
  std::string only, file;
  bool verbose = false;
  GradientOptions check;
};

/// Whether the operator has a derivative by rule or by decomposition.
bool hasDerivative(mlir::OperationName name) {
  const graph::GradientRule *rule = graph::findGradientRule(name);
  return rule ? !rule->isNone() && !rule->isZero() : name.hasInterface<graph::Decomposable>();
}

/// Whether a derivative that goes through the operator is to be refused.
bool isRefused(mlir::OperationName name) {
  const graph::GradientRule *rule = graph::findGradientRule(name);
  return rule && rule->isNone();
}

/// Whether the operator's derivative is a convention and no slope: that of what it rounds, which
/// has steps. Its own tests are in tests/python/test_quantisation.py.
bool isConvention(mlir::OperationName name) { return name.stripDialect() == "fake_quantize"; }
bool hasConvention(mlir::ModuleOp module) {
  return module
      ->walk([](mlir::Operation *op) {
        return isConvention(op->getName()) ? mlir::WalkResult::interrupt()
                                           : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

/// Prints what is wrong; whether anything is.
bool isWrong(const GradientReport &report, const std::string &what, mlir::ModuleOp module,
             bool mayHaveNone) {
  bool wrong = !report.difference.empty() || (!report.error.empty() && !mayHaveNone);
  if (!wrong)
    return false;
  std::printf("%s: %s%s\n", what.c_str(), report.difference.c_str(), report.error.c_str());
  module.print(llvm::outs());
  llvm::outs().flush();
  return true;
}

int checkOperators(mlir::MLIRContext &context, const Settings &settings) {
  int wrong = 0;
  for (const DrawnOperator &drawn : operatorsToDraw(&context)) {
    std::string name = drawn.name.stripDialect().str();
    bool isWanted = settings.only.empty() ? drawn.weight > 0 : settings.only == name;
    if (isConvention(drawn.name) || !isWanted)
      continue;
    int smooth = 0, failures = 0, refused = 0;
    uint64_t tries = settings.each * 8;
    for (uint64_t seed = settings.first; smooth < int(settings.each) && tries-- > 0; ++seed) {
      auto module = Generator(&context, seed).runOperator(name);
      if (!module)
        continue;
      GradientReport report = checkGradients(*module, seed, settings.check);
      smooth += report.smooth > 0;
      refused += !report.error.empty();
      if (!report.error.empty() && settings.verbose)
        std::printf("  %s, seed %d: %s\n", name.c_str(), int(seed), report.error.c_str());
      if (isRefused(drawn.name) && report.error.empty() && report.compared > 0)
        report.difference = "no derivative is known, and one was given";
      failures += isWrong(report, name + ", seed " + std::to_string(seed), *module, true);
      if (failures > 0)
        break;
    }
    wrong += failures;
    std::printf("%-24s %s: %d compared, %d refused\n", name.c_str(),
                hasDerivative(drawn.name) ? "has a derivative" : "has none", smooth, refused);
    if (smooth == 0 && hasDerivative(drawn.name)) {
      std::printf("%s: nothing of it was compared\n", name.c_str());
      ++wrong;
    }
  }
  return wrong;
}

int checkGraphs(mlir::MLIRContext &context, const Settings &settings) {
  int wrong = 0, smooth = 0, refused = 0;
  for (uint64_t seed = settings.first; seed < settings.first + settings.graphs; ++seed) {
    auto module = Generator(&context, seed).run();
    if (hasConvention(*module))
      continue;
    GradientReport report = checkGradients(*module, seed, settings.check);
    smooth += report.smooth;
    refused += !report.error.empty();
    if (!report.error.empty() && settings.verbose)
      std::printf("  seed %d: %s\n", int(seed), report.error.c_str());
    wrong += isWrong(report, "seed " + std::to_string(seed), *module, true);
  }
  std::printf("%d slopes compared, %d graphs refused, %d differ\n", smooth, refused, wrong);
  return wrong;
}

int checkFile(mlir::MLIRContext &context, const Settings &settings) {
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(settings.file, &context);
  if (!module)
    return 1;
  int wrong = 0, smooth = 0;
  for (uint64_t seed = settings.first; seed < settings.first + 3; ++seed) {
    GradientReport report = checkGradients(*module, seed, settings.check);
    wrong += isWrong(report, settings.file, *module, false);
    smooth += report.smooth;
  }
  std::printf("%d slopes compared, %d differ\n", smooth, wrong);
  return wrong + (smooth == 0);
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Compares derivatives with differences.", "random-gradients");
  Settings settings;
  app.add_option("--each", settings.each, "Graphs of each operator");
  app.add_option("--operator", settings.only, "Only this one");
  app.add_option("--graphs", settings.graphs, "Whole graphs");
  app.add_option("--first,--seed", settings.first, "Seed of the first");
  app.add_option("--check", settings.file, "The graph in a file instead");
  app.add_flag("--second", settings.check.second, "Second derivatives too");
  app.add_flag("--compile", settings.check.compile, "The gradients' compiled code too");
  app.add_flag("--verbose", settings.verbose, "Why derivatives are refused");
  CLI11_PARSE(app, argc, argv);
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  tensmith::targets::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  int wrong = settings.each ? checkOperators(context, settings) : 0;
  wrong += settings.graphs ? checkGraphs(context, settings) : 0;
  wrong += settings.file.empty() ? 0 : checkFile(context, settings);
  return wrong > 0;
}
