// The story of a compilation: a graph function in, a module out.
#pragma once

#include "base/Precision.h"
#include "base/Status.h"
#include "compiler/pipeline/Calibration.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <memory>
#include <string>

namespace tensmith::kernel {
class Schedules;
}
namespace tensmith::pipeline {

class Measurer;
class ScheduleSource;

struct CompileOptions {
  std::string target = "host";
  std::string cacheFolder; // of compiled kernels; empty: none
  /// Each stage's IR, numbered, and the code of each kernel, all of which are then compiled afresh;
  /// empty: none.
  std::string dumpFolder;
  int threads = 0;               // 0: as many as CPUs
  bool fuse = true;              // off: every operator is a kernel of its own
  bool evaluatePartially = true; // off: programs keep their calls of functions that are known
  bool keepControl = false;      // loops and branches are run as such, so that all in them is seen
  Precision precision = Precision::Fast;
  bool fastMath = false; // expressions by rules of real numbers, too
  /// What is rounded under bf16 and f16 in place of operators' rules: "NAMES=never" and so on
  /// (graph/Precision.h).
  std::vector<std::string> casts;
  bool debugInfo = true; // kernels' nodes and lines for debuggers and profilers
  std::string schedules; // a file of choices for kernels (kernel/Schedule.h); empty: none
  /// Whose points are taken where `schedules` says nothing; null: estimates alone.
  std::shared_ptr<ScheduleSource> source;
  /// Given what may be chosen of the kernels and decided for operators, and what was, before the
  /// kernels become code; none: it isn't found out.
  std::function<void(const kernel::Schedules &)> offered;
  /// Given why the kernels are what they are, as JSON (Explanation.h); none: it isn't found out.
  std::function<void(const std::string &json)> explained;
  /// Who does operators (libraries/Libraries.h): "generated", "onednn,openblas", "measured", ...
  std::string libraries = "generated";
  std::shared_ptr<Measurer> measurer; // times what is chosen by measuring; null: nothing is
  /// On which the results are held against double precision; a layer, or a model, that errs by more
  /// than the policy allows falls back. Needs `run`.
  std::optional<CalibrationInputs> calibration;
  RunModule run;
  bool byReference = false; // no kernels: the runtime evaluates every operator
  /// Evaluates the graph by the reference after each rewrite, on drawn inputs, and fails where one
  /// changes a result.
  bool verifyEachPass = false;
  /// Kernels refuse each access outside of their operands, and a compilation fails where a kernel
  /// relies on sizes of which no check of the model speaks: both would be faults of the compiler.
  bool checkBounds = false;
  /// Bytes that a run may hold; 0: any. What is kept is then chosen, and the rest computed again,
  /// by a plan (vm/Recomputation.h): "cost", "segments" or "recursive". A plan without a budget
  /// takes as little as it can.
  int64_t memoryBudget = 0;
  std::string recomputation;
  std::vector<std::string> devices; // that run the kernels, by name; none: the host does
  bool resident = false;            // inputs and outputs lie in the first one's memory
  /// With several devices, which of so many runs a kernel, from 1 on; null: each gets a stretch of
  /// them with as much work.
  std::function<uint32_t(uint32_t kernel, uint32_t devices)> deviceOf;
  std::string reproducer; // file for what a failure leaves; empty: none
  std::string madeOf;     // the caller's words, kept in the module's metadata
  std::string model = "model";
  std::function<void(const char *stage, double fraction)> progress;
  /// Of what goes on without: called from any thread, one call at a time.
  std::function<void(const std::string &)> warn;
};

/// Compiles `main` of the module, which is changed on the way, to the module file's bytes, or into
/// the file `path`.
Result<std::string> compileToBytes(mlir::ModuleOp module, const CompileOptions &options);
Status compileToFile(mlir::ModuleOp module, const CompileOptions &options, const std::string &path);

/// The names in "separate:0,separate:1"; none in an empty text. InvalidArgument where there is no
/// device of a name.
Result<std::vector<std::string>> parseDevices(std::string_view text);

/// The rewrites in their order: "simplify, fold-constants, ...".
std::string pipelineText(const CompileOptions &options);
/// What a compilation has before its kernels are code: the plan, whose kernels' symbols name
/// nothing, and the weights. For whoever wants every stage but the longest.
struct CodelessModule {
  std::string plan, weights;
};
Result<CodelessModule> compileWithoutCode(mlir::ModuleOp module, const CompileOptions &options);

} // namespace tensmith::pipeline
