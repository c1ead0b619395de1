// A compilation as the C API's caller asks for it: options checked, limits kept, what is asked for
// beside the model itself added to it.
//
// Whatever a model comes from, a file or a builder, goes through the same three steps:
// `checkedOptions`, `prepareModel` within `CompileLimits`, and the pipeline with `compileOptions`.
#pragma once

#include <tensmith/compiler.h>

#include "base/Budget.h"
#include "base/Status.h"
#include "compiler/graph/Outputs.h"
#include "compiler/pipeline/Compile.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tensmith {

/// The caller's options, as far as its version of the structure goes; the rest are the defaults.
/// InvalidArgument where one makes no sense.
Result<ts_compile_options> checkedOptions(const ts_compile_options *given);

graph::Keep keepOptions(const ts_compile_options &options);

/// Those of the pipeline. `model`: what messages call it.
pipeline::CompileOptions compileOptions(const ts_compile_options &options,
                                        const std::string &model);

/// Adds derivatives, or makes the model a step of training, and opens programs where a budget of
/// memory needs one graph.
Status prepareModel(mlir::ModuleOp module, const ts_compile_options &options);

/// What the options allow the calling thread, for as long as this lives.
class CompileLimits : ResourceScope {
public:
  explicit CompileLimits(const ts_compile_options &options)
      : ResourceScope({std::make_shared<Budget>(options.memory_limit),
                       deadlineIn(options.time_limit == 0 ? kSeconds : options.time_limit)}) {}

private:
  static constexpr double kSeconds = 3600;
};

} // namespace tensmith
