// One compilation: its stages in their order, and what they hand on.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/kernel/CanonicalKernel.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/kernel/SizeFamilies.h"
#include "compiler/libraries/Libraries.h"
#include "compiler/module/ModuleWriter.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/Dump.h"
#include "compiler/pipeline/Explanation.h"
#include "compiler/pipeline/Measure.h"
#include "compiler/targets/Target.h"
#include "compiler/vm/PlanBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>
#include <map>
#include <set>

namespace tensmith::pipeline {

class Compilation {
public:
  Compilation(mlir::ModuleOp module, const CompileOptions &options, bool generateCode = true)
      : module_(module), options_(options), generateCode_(generateCode), dump_(options.dumpFolder) {
  }

  /// Tries layers on what they get in the model; `layerBound`: what they may err by.
  void calibrate(Calibration &calibration, double layerBound) {
    calibration_ = &calibration;
    layerBound_ = layerBound;
  }

  /// Begins at the rewrite of that name, by these choices: of a module that is a part of one which
  /// had the rewrites before it.
  void resumeAt(std::string_view rewrite, kernel::Schedules choices) {
    firstRewrite_ = rewrite;
    schedules_ = std::move(choices);
  }
  /// Called with each kernel's operators and results, as they are when its key is taken. What they
  /// are stays as it is for as long as the module's context.
  std::function<void(const kernel::Key &, llvm::ArrayRef<mlir::Operation *>, mlir::ValueRange)>
      regionTaken;
  /// Called with the code that is emitted for a kernel.
  std::function<void(const kernel::Key &, const kernel::EmittedKernel &)> codeEmitted;

  Result<modules::ModuleParts> run();

  /// After `run`.
  const kernel::Schedules &choices() const { return schedules_; }
  const vm::KernelBinding &binding(graph::KernelOp op) const;

  /// After `run`: the same module, whose metadata have the finding.
  Result<modules::ModuleParts> tell(std::string finding);

  /// What was chosen, as JSON.
  std::string schedules() const { return schedules_.json(); }

private:
  void report(const char *stage, double fraction);

  Status readSchedules();

  /// Points of the source, where there is one.
  void takeTuned();

  /// Of choices that fit nothing, and of libraries that the module calls and that aren't here:
  /// they may be where it runs.
  void warn();

  /// 1. The graph as the front end gave it becomes one of kernels, and of operators that the
  /// runtime evaluates.
  Status rewriteGraph();

  /// Before anything is rounded otherwise than the model says.
  Status markLayers();

  /// A program is procedures around segments, each of which goes the way of a graph; a graph is its
  /// one function.
  Status outlineProgram();

  /// 2. Each region to vector code. An operator that turns out to have none for its types goes back
  /// to being evaluated by reference, with those that it was fused with; the plan says so.
  Status emitKernels();

  /// One code for each family of small kernels that differ by sizes alone.
  Status emitFamilies(llvm::ArrayRef<graph::KernelOp> kernels);

  /// The kernel's space, to whoever asked for spaces.
  void offer(const kernel::Key &key, mlir::Operation *root,
             const kernel::CanonicalKernel &structure);

  /// The code as one of the module's kernels; its number.
  size_t addSource(kernel::EmittedKernel &emitted, graph::KernelOp op, std::string label);

  /// Of a kernel that a library does.
  Status bindCall(graph::KernelOp op);

  /// Seconds of the function with that library for its operator, whatever its constants are.
  Result<double> measure(mlir::ModuleOp module, const std::string &library,
                         const std::string &schedules);

  Result<double> measureAfresh(mlir::ModuleOp module, const std::string &library,
                               const std::string &schedules);

  /// What a function that is measured is run on, and should give.
  struct MeasuredFunction {
    std::vector<Candidate::Input> inputs;
    std::vector<HostTensor> expected; // empty: not known yet
  };
  MeasuredFunction &measuredFunction(mlir::ModuleOp module);

  /// A structure that code was emitted for, and the number of that kernel.
  struct Emitted {
    kernel::CanonicalKernel structure;
    size_t kernel;
    llvm::SmallVector<kernel::SizedPoint, 1> points;
  };

  /// A kernel of the same structure that was emitted before; deep networks have each a thousand
  /// times.
  const Emitted *findEqual(const kernel::CanonicalKernel &structure);

  /// The names of sizes, which the code was emitted without.
  static void rename(vm::KernelBinding &binding, const kernel::CanonicalKernel &structure);

  /// Binds the kernel to the code of an equal one, whose sizes may have other names.
  void bind(graph::KernelOp op, const Emitted &equal, const kernel::CanonicalKernel &structure);

  static void inlineRegion(graph::KernelOp op);

  /// 3. Vector code to objects for the machine, on all cores, each structure once, from the cache
  /// where it has them.
  Status compileKernels();

  /// Of each kernel's code the nodes that it is for, for debuggers and profilers.
  void noteNodes();

  /// 4. What a run computes again to keep to its memory: kernels as they are, none of which has to
  /// be emitted for it. By the kernels' times, where there are code and somebody to measure it.
  Status planMemory();

  vm::PlanInput planInput();

  /// 5. The order of execution, memory and constants.
  Status planExecution();

  mlir::ModuleOp module_;
  const CompileOptions &options_;
  bool generateCode_;
  Calibration *calibration_ = nullptr;
  std::string casts_; // graph::castTable of a step that is rounded
  double layerBound_ = std::numeric_limits<double>::infinity();
  std::string finding_; // of the calibration
  Dump dump_;
  mlir::func::FuncOp function_;                     // main
  llvm::SmallVector<mlir::func::FuncOp> functions_; // of graph operators
  std::unique_ptr<targets::Target> target_;
  kernel::Machine machine_;
  std::string_view firstRewrite_; // empty: all are run
  kernel::Schedules schedules_;
  std::map<kernel::Key, kernel::Point> tuned_; // of the source, each looked up once
  libraries::Policy libraries_;
  std::vector<LibraryRefusal> libraryRefusals_;               // where the compilation is explained
  std::map<std::string, Result<double>> measured_;            // by library and text
  std::map<std::string, MeasuredFunction> measuredFunctions_; // by text
  std::set<std::string> told_;                                // who could not be measured
  std::vector<targets::KernelSource> sources_;
  std::vector<size_t> generated_; // of which kernel each source is
  std::vector<vm::KernelBinding> kernels_;
  std::map<size_t, std::vector<Emitted>> emitted_; // by hash
  std::vector<std::pair<size_t, size_t>> renamed_; // kernels whose code is another one's
  std::string recomputation_;
  bool usesMatrixUnit_ = false;
  std::vector<std::string> unemitted_;
  Result<vm::Plan> plan_{Status(StatusCode::Internal, "not planned yet")};
  modules::ModuleParts parts_;
};

} // namespace tensmith::pipeline
