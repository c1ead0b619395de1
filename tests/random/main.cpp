// random-graphs: draws graphs, compiles them, and compares the compiled code with the reference.
//
//   random-graphs --count 2000            graphs 1 to 2000
//   random-graphs --first 17 --count 1    one of them
//   random-graphs --open 8 --count 20000  with open sizes, at eight draws of them
//   random-graphs --points 5 --count 200  with the choices of kernels drawn, five times each
//   random-graphs --replay seed-17.mlir   what an earlier run wrote out
//   random-graphs --target aarch64:cortex-a53 --runner "qemu-aarch64 tensmith-run"   on another CPU
#include "tests/random/Batch.h"
#include "tests/random/Check.h"
#include "tests/random/Generator.h"
#include "tests/random/LoopsTarget.h"

#include "compiler/graph/Conditions.h"
#include "compiler/graph/Dialects.h"
#include "compiler/kernel/SizeFamilies.h"
#include "compiler/targets/Target.h"

#include "mlir/Parser/Parser.h"

#include <CLI/CLI.hpp>
#include <cstdio>

using namespace tensmith::random_graphs;

namespace {

constexpr int kNothingToDraw = 3;

int replay(mlir::MLIRContext &context, const std::string &path, const CheckOptions &options) {
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return 1;
  Report report = check(*module, options);
  std::printf("%s: %s %s\n", path.c_str(), nameOf(report.verdict).data(), report.message.c_str());
  return report.verdict == Verdict::Agrees ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Compares compiled code with the reference evaluation on graphs drawn at random.",
               "random-graphs");
  BatchOptions options;
  std::string file;
  uint64_t print = 0;
  CheckOptions replayed;
  app.add_option("--count", options.count, "Graphs to draw")->capture_default_str();
  app.add_option("--seed,--first", options.first, "Seed of the first; the others count up from it")
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "Processes at a time")->capture_default_str();
  app.add_option("--out", options.folder, "Where failing graphs go")->capture_default_str();
  app.add_option("--timeout", options.timeoutSeconds, "Seconds that one graph may take")
      ->capture_default_str();
  app.add_flag("--all-operators", options.allOperators,
               "Graphs of each operator first; fail unless every one was drawn");
  app.add_flag("!--no-reduce", options.reduce, "Write failing graphs out as they were drawn");
  app.add_option("--device", options.device,
                 "What runs the kernels: separate, or several: separate:0,separate:1");
  app.add_option("--target", options.target,
                 "What the code is for: aarch64:cortex-a76; loops:host: by loops alone")
      ->capture_default_str();
  app.add_option("--runner", options.runner,
                 "The program that runs modules there: \"qemu-aarch64 .../tensmith-run\"");
  app.add_option("--replay", file, "Check the graph in a file instead");
  app.add_flag("!--no-fuse", replayed.fuse, "With --replay: every operator a kernel of its own");
  bool isExact = false;
  app.add_flag("--exact", isExact, "With --replay: no algorithms that round otherwise");
  app.add_flag("--by-reference", replayed.byReference, "With --replay: no kernels");
  app.add_option("--open", options.openRuns,
                 "Open the inputs' sizes, and run at so many, wrong ones among them");
  app.add_flag("--check-bounds", options.checkBounds, "Check each access of the compiled code");
  app.add_option("--breaking", options.breaking,
                 "With --open: break requirements whose message holds this alone, in graphs that "
                 "have one");
  app.add_option("--unchecked", tensmith::graph::leftOutRequirement(),
                 "Leave out the checks of sizes whose message holds this, to see that it fails");
  app.add_flag_callback(
      "--families", [] { tensmith::kernel::familyBounds() = {.members = 1, .flops = 1e18}; },
      "Emit each kernel as one of a family that differs by its sizes");
  app.add_option("--points", options.points,
                 "Compile each graph by so many points of its kernels' spaces, too");
  app.add_option("--operators", options.operators,
                 "Draw graphs of one of these alone, as conv,max_pool, with what it needs")
      ->delimiter(',');
  app.add_flag("--to-first", options.toFirst, "End with the first that fails");
  app.add_option("--dump", replayed.dumpFolder, "With --replay: where each stage's IR goes");
  app.add_option("--print", print, "Print the graph of a seed instead");
  tensmith::addLoopsTarget();
  CLI11_PARSE(app, argc, argv);
  mlir::DialectRegistry registry;
  tensmith::graph::registerDialects(registry);
  tensmith::targets::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  replayed.device = options.device;
  replayed.target = options.target;
  replayed.runner = options.runner;
  replayed.checkBounds = options.checkBounds;
  replayed.points = options.points;
  replayed.precision = isExact ? tensmith::Precision::Exact : tensmith::Precision::Fast;
  if (!file.empty())
    return replay(context, file, replayed);
  if (!options.operators.empty()) {
    const auto &drawn = operatorsToDraw(&context);
    llvm::erase_if(options.operators, [&](const std::string &name) {
      return llvm::none_of(drawn,
                           [&](const auto &each) { return each.name.stripDialect() == name; });
    });
    if (options.operators.empty()) {
      std::fprintf(stderr, "random-graphs: none of these operators has a recipe\n");
      return kNothingToDraw;
    }
  }
  if (print) {
    graphOf(context, options, print)->print(llvm::outs());
    return 0;
  }
  return runBatch(context, options) ? 0 : 1;
}
