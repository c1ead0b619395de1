// tensmith-opt: the graph's text through chosen passes, for the compiler's developers and its
// tests.
//
// Every rewrite of compiler/rewrite/Rewrites.h is a pass under its name, on each function;
// differentiation is one too, and so are a program's way into main and back, on the module.
// --plugin=FILE adds what a plug-in has (compiler/extend), which finds the compiler's names in this
// program.
#include "compiler/autodiff/Differentiate.h"
#include "compiler/extend/Plugin.h"
#include "compiler/graph/Dialects.h"
#include "compiler/program/Inlining.h"
#include "compiler/program/Program.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/targets/Target.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

#include <cstdlib>

using namespace tensmith;

namespace {

class RewritePass : public mlir::PassWrapper<RewritePass, mlir::OperationPass<mlir::func::FuncOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RewritePass)

  explicit RewritePass(const rewrite::Rewrite &rewrite) : rewrite(rewrite) {}
  RewritePass(const RewritePass &other) : PassWrapper(other), rewrite(other.rewrite) {
    copyOptionValuesFrom(&other);
  }

  llvm::StringRef getArgument() const override { return toRef(rewrite.name); }
  llvm::StringRef getDescription() const override { return toRef(rewrite.summary); }
  llvm::StringRef getName() const override { return toRef(rewrite.name); }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    graph::registerDialects(registry);
    targets::registerDialects(registry);
  }

  void runOnOperation() override {
    rewrite::Options options;
    options.machine.templates = &targets::vectorTemplates();
    options.foldedBytes = foldedBytes;
    options.fuse = fuse;
    options.precision = precision;
    auto policy = libraries::parsePolicy(libraries);
    if (!policy.ok()) {
      getOperation().emitError(policy.status().message());
      return signalPassFailure();
    }
    options.libraries = *policy;
    using kernel::Number;
    kernel::Intrinsic halves = *kernel::portableIntrinsic(Number::BF16, Number::BF16, Number::F32);
    halves.rate = double(halves.depth);
    if (pairsOfHalves)
      options.machine.intrinsics.push_back(&halves);
    if (mlir::failed(rewrite.run(getOperation(), options)))
      signalPassFailure();
  }

private:
  static llvm::StringRef toRef(std::string_view text) { return {text.data(), text.size()}; }

  const rewrite::Rewrite &rewrite;
  Option<int64_t> foldedBytes{*this, "folded-bytes", llvm::cl::init(rewrite::Options().foldedBytes),
                              llvm::cl::desc("Largest constant that folding may make")};
  Option<bool> fuse{*this, "fuse", llvm::cl::init(true),
                    llvm::cl::desc("Off: every operator is a kernel of its own")};
  Option<std::string> libraries{*this, "by", llvm::cl::init("generated"),
                                llvm::cl::desc("Who does operators: onednn,openblas,xsmm")};
  Option<Precision> precision{
      *this, "precision", llvm::cl::init(Precision::Fast), llvm::cl::desc("What may be rounded"),
      llvm::cl::values(clEnumValN(Precision::Fast, "fast", "Sums, by other algorithms"),
                       clEnumValN(Precision::Exact, "exact", "Nothing"),
                       clEnumValN(Precision::Bfloat, "bf16", "Operands of products, too"),
                       clEnumValN(Precision::Half, "f16", "Those of training's, to f16"))};
  Option<bool> pairsOfHalves{*this, "pairs-of-halves", llvm::cl::init(false),
                             llvm::cl::desc("A machine that adds up products of bf16 by two")};
};

class DifferentiatePass
    : public mlir::PassWrapper<DifferentiatePass, mlir::OperationPass<mlir::func::FuncOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DifferentiatePass)

  DifferentiatePass() = default;
  DifferentiatePass(const DifferentiatePass &other) : PassWrapper(other) {
    copyOptionValuesFrom(&other);
  }
  llvm::StringRef getArgument() const override { return "graph-differentiate"; }
  llvm::StringRef getDescription() const override {
    return "Gradients, or tangents, of a function's results by its arguments";
  }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    graph::registerDialects(registry);
  }

  void runOnOperation() override {
    autodiff::Derivative derivative;
    derivative.mode = forward ? autodiff::Mode::Forward : autodiff::Mode::Reverse;
    derivative.of = {of.begin(), of.end()};
    derivative.withRespectTo = {by.begin(), by.end()};
    derivative.takesCotangent = takesCotangent;
    Status status = autodiff::differentiate(getOperation(), derivative);
    if (status.ok())
      return;
    getOperation().emitError(status.message());
    signalPassFailure();
  }

private:
  ListOption<std::string> of{*this, "of", llvm::cl::desc("Results")};
  ListOption<std::string> by{*this, "by", llvm::cl::desc("Arguments")};
  Option<bool> forward{*this, "forward", llvm::cl::init(false),
                       llvm::cl::desc("Tangents and not gradients")};
  Option<bool> takesCotangent{*this, "cotangent", llvm::cl::init(false),
                              llvm::cl::desc("Take the cotangent of a single number too")};
};

/// What works on a module as a whole, without options.
class ModulePass : public mlir::PassWrapper<ModulePass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ModulePass)

  ModulePass(llvm::StringRef name, llvm::StringRef summary, void (*change)(mlir::ModuleOp))
      : name(name), summary(summary), change(change) {}
  llvm::StringRef getArgument() const override { return name; }
  llvm::StringRef getDescription() const override { return summary; }
  llvm::StringRef getName() const override { return name; }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    graph::registerDialects(registry);
    registry.insert<program::ProgramDialect>();
  }
  void runOnOperation() override { change(getOperation()); }

private:
  llvm::StringRef name, summary;
  void (*change)(mlir::ModuleOp);
};

} // namespace

/// Loads the plug-ins that are named, and takes them out of the arguments: their passes are options
/// of what reads the rest.
static int loadPlugins(int argc, char **argv) {
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    if (!argument.consume_front("--plugin=")) {
      argv[kept++] = argv[i];
      continue;
    }
    if (Status status = extend::loadPlugin(argument.str()); !status.ok()) {
      llvm::errs() << "tensmith-opt: " << status.message() << "\n";
      std::exit(EXIT_FAILURE);
    }
  }
  return kept;
}

int main(int argc, char **argv) {
  argc = loadPlugins(argc, argv);
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  targets::registerDialects(registry);
  registry.insert<program::ProgramDialect>();
  for (const rewrite::Rewrite *rewrite : rewrite::rewrites().rows())
    mlir::registerPass([rewrite] { return std::make_unique<RewritePass>(*rewrite); });
  mlir::registerPass([] { return std::make_unique<DifferentiatePass>(); });
  mlir::registerPass([] {
    return std::make_unique<ModulePass>("program-open", "A program's code into main",
                                        &program::openProgram);
  });
  mlir::registerPass([] {
    return std::make_unique<ModulePass>("program-close", "A program's code out of main",
                                        &program::closeProgram);
  });
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Runs passes on Tensmith's graph text.\n", registry));
}
