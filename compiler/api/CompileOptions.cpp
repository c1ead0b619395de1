// Options are checked before anything is read; see CompileOptions.h.
#include "compiler/api/CompileOptions.h"

#include "cache/Store.h"
#include "compiler/api/Boundary.h"
#include "compiler/api/Derivatives.h"
#include "compiler/api/RunModule.h"
#include "compiler/api/TrainingOptions.h"
#include "compiler/graph/Precision.h"
#include "compiler/libraries/Libraries.h"
#include "compiler/pipeline/Measure.h"
#include "compiler/pipeline/ScheduleSource.h"
#include "compiler/program/Inlining.h"
#include "compiler/program/Program.h"
#include "compiler/training/Training.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstring>

using namespace mlir;

namespace tensmith {
namespace {

/// What the caller's function knows.
class CallersSource : public pipeline::ScheduleSource {
public:
  explicit CallersSource(const ts_compile_options &options)
      : tuned_(options.tuned), context_(options.tuned_context) {}

  std::string choicesOf(const std::string &machine, const std::string &key) override {
    const char *choices = tuned_(context_, machine.c_str(), key.c_str());
    return choices ? choices : "";
  }

private:
  decltype(ts_compile_options::tuned) tuned_;
  void *context_;
};

/// Whether sizes decide all of a program, so that it is one graph. Of any other the calls stay as
/// they are, and with them the kernels, whose bits would be others.
bool isStraightOnceOpen(ModuleOp module) {
  if (llvm::none_of(module.getOps<func::FuncOp>(), program::isProcedure))
    return false;
  OwningOpRef<ModuleOp> copy = module.clone();
  program::openProgram(*copy);
  return program::checkTensorCode(*copy, "").ok();
}

Status derive(ModuleOp module, const ts_compile_options &options) {
  if (!options.training)
    return addDerivatives(module, options);
  auto asked = trainingOptions(*options.training);
  if (!asked.ok())
    return asked.status();
  asked->scalesLoss = options.precision == TS_PRECISION_F16;
  asked->checkpointing = checkpointing(options);
  Status status = training::makeTrainingStep(module, *asked);
  if (status.ok())
    program::closeProgram(module);
  return status;
}

} // namespace

static Status checkCasts(const ts_compile_options &options) {
  for (size_t i = 0; i < options.cast_count; ++i)
    if (!options.casts || !options.casts[i])
      return invalidArgument("the rule of a cast is null");
  std::vector<std::string> casts(options.casts, options.casts + options.cast_count);
  if (auto requests = graph::parseCasts(casts); !requests.ok())
    return requests.status();
  bool isRounded = options.precision == TS_PRECISION_BF16 || options.precision == TS_PRECISION_F16;
  return casts.empty() || isRounded
             ? Status()
             : invalidArgument(
                   "casts are rules of the precisions bf16 and f16; ask for one of them");
}

/// The caller's options, as far as its version of the structure goes; the rest are the defaults.
Result<ts_compile_options> checkedOptions(const ts_compile_options *given) {
  ts_compile_options result;
  ts_compile_options_init(&result);
  if (!given)
    return result;
  if (given->size < sizeof(size_t))
    return invalidArgument("the options' size is not set; call ts_compile_options_init");
  std::memcpy(&result, given, std::min(given->size, sizeof(result)));
  for (size_t i = 0; i < result.shape_count; ++i)
    if (!result.shapes || !result.shapes[i])
      return missing("a shape");
  for (size_t i = 0; i < result.keep_count; ++i)
    if (!result.keep || !result.keep[i])
      return missing("the name of a tensor to keep");
  for (size_t i = 0; i < result.overridable_count; ++i)
    if (!result.overridable || !result.overridable[i])
      return missing("the name of an overridable input");
  if (Status status = checkDerivatives(result); !status.ok())
    return status;
  if (result.training && result.derivative_count)
    return invalidArgument("a step of training can't be asked for together with derivatives");
  if (Status status = checkCalibration(result); !status.ok())
    return status;
  if (result.training && result.for_evaluation)
    return invalidArgument("a step of training can't be compiled for evaluation");
  if (result.optimization != 0 && result.optimization != 1)
    return invalidArgument("there is no optimization level " + std::to_string(result.optimization) +
                           "; 0 and 1 are known");
  if (result.precision < TS_PRECISION_FAST || result.precision > TS_PRECISION_F16)
    return invalidArgument("there is no precision " + std::to_string(result.precision));
  if (result.libraries)
    if (auto policy = libraries::parsePolicy(result.libraries); !policy.ok())
      return policy.status();
  if (result.precision == TS_PRECISION_F16 && !result.training)
    return invalidArgument("the precision f16 is one of training; others are fast, exact and bf16");
  if (result.fast_math && result.precision == TS_PRECISION_EXACT)
    return invalidArgument("the precision exact keeps the model's own operations, which fast_math "
                           "is to replace; ask for one of them");
  if (Status status = checkCasts(result); !status.ok())
    return status;
  if (result.device)
    if (auto devices = pipeline::parseDevices(result.device); !devices.ok())
      return devices.status();
  if (result.resident && !result.device)
    return invalidArgument(
        "inputs and outputs can be resident on a device alone, and none is named");
  if (result.memory_limit < 0 || result.node_limit < 0 || result.nesting_limit < 0)
    return invalidArgument("a limit is negative");
  if (result.threads < 0)
    return invalidArgument("a compilation can't have " + std::to_string(result.threads) +
                           " threads");
  return result;
}

graph::Keep keepOptions(const ts_compile_options &options) {
  graph::Keep keep;
  for (size_t i = 0; i < options.keep_count; ++i)
    if (StringRef(options.keep[i]) == "*")
      keep.all = true;
    else
      keep.names.push_back(options.keep[i]);
  return keep;
}

pipeline::CompileOptions compileOptions(const ts_compile_options &options,
                                        const std::string &model) {
  pipeline::CompileOptions result;
  if (options.target)
    result.target = options.target;
  result.cacheFolder = options.cache_dir ? options.cache_dir : cache::defaultFolder();
  if (options.dump_ir_dir)
    result.dumpFolder = options.dump_ir_dir;
  result.threads = options.threads;
  result.fuse = options.optimization > 0;
  result.evaluatePartially = options.optimization > 0;
  result.keepControl = keepOptions(options).all;
  result.precision = Precision(options.precision);
  result.fastMath = options.fast_math != 0;
  result.debugInfo = options.debug_info != 0;
  result.casts.assign(options.casts, options.casts + options.cast_count);
  result.byReference = options.evaluate_by_reference != 0;
  result.model = model;
  result.verifyEachPass = options.verify_each_pass != 0;
  result.checkBounds = options.check_bounds != 0;
  if (options.schedules)
    result.schedules = options.schedules;
  if (options.tuned)
    result.source = std::make_shared<CallersSource>(options);
  if (options.libraries)
    result.libraries = options.libraries;
  result.measurer = pipeline::measurerHere();
  result.calibration = calibrationInputs(options);
  result.run = runModule;
  result.memoryBudget = options.memory_budget;
  if (options.recomputation)
    result.recomputation = options.recomputation;
  if (options.device)
    result.devices = *pipeline::parseDevices(options.device); // was looked at
  result.resident = options.resident != 0;
  if (options.made_of)
    result.madeOf = options.made_of;
  if (options.reproducer)
    result.reproducer = options.reproducer;
  if (options.progress)
    result.progress = [options](const char *stage, double fraction) {
      options.progress(options.progress_context, stage, fraction);
    };
  if (options.warn)
    result.warn = [options](const std::string &message) {
      options.warn(options.warn_context, message.c_str());
    };
  return result;
}

/// What is computed again is chosen in one graph, which most programs are once they are open. Of
/// the others the derivatives were made for it.
Status prepareModel(ModuleOp module, const ts_compile_options &options) {
  bool hasBudget = options.memory_budget || options.recomputation;
  if (hasBudget && !options.training && isStraightOnceOpen(module))
    program::openProgram(module); // cut by kernels, not by calls
  if (Status status = derive(module, options); !status.ok())
    return status;
  if (options.memory_budget == 0 && module->hasAttr(autodiff::kCheckpointed)) {
    program::closeProgram(module);
    return {};
  }
  if (!hasBudget || llvm::none_of(module.getOps<func::FuncOp>(), program::isProcedure))
    return {};
  program::openProgram(module);
  return program::checkTensorCode(
      module,
      "memory is planned for tensor code alone, since procedures take it as they run; "
      "let sizes be fixed (--shape), or leave out memory and recomputation; of a recursion by "
      "tail calls segments and recursive, without memory, keep some states for gradients");
}

} // namespace tensmith
