// Finds the compiler's library by the search path of what it is linked into, and its functions by
// name.
#include "client/CompilerLibrary.h"

#include <dlfcn.h>

namespace tensmith::client {
namespace {

template <typename Function>
void find(void *handle, const char *name, Function &function, std::string &failure) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (!function)
    failure = std::string(TENSMITH_COMPILER_LIBRARY) + " has no " + name +
              "; it is of another version than this program";
}

CompilerLibrary open() {
  CompilerLibrary library;
  void *handle = ::dlopen(TENSMITH_COMPILER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    library.failure = std::string("the compiler can't be loaded (") + ::dlerror() +
                      "); compiled modules run without it, models need it";
    return library;
  }
  std::string &failure = library.failure;
  find(handle, "ts_load_plugin", library.loadPlugin, failure);
  find(handle, "ts_compile_file", library.compileFile, failure);
  find(handle, "ts_compile_bytes", library.compileBytes, failure);
  find(handle, "ts_compile_update", library.compileUpdate, failure);
  find(handle, "ts_evaluate_file", library.evaluateFile, failure);
  find(handle, "ts_describe_model", library.describeModel, failure);
  find(handle, "ts_describe_spaces", library.describeSpaces, failure);
  find(handle, "ts_explain", library.explain, failure);
  find(handle, "ts_describe_machine", library.describeMachine, failure);
  find(handle, "ts_format_program", library.formatProgram, failure);
  find(handle, "ts_describe_comprehensions", library.describeComprehensions, failure);
  find(handle, "ts_measure_machine", library.measureMachine, failure);
  find(handle, "ts_describe_compiler", library.describeCompiler, failure);
  find(handle, "ts_replace_initialisers", library.replaceInitialisers, failure);
  find(handle, "ts_export_onnx", library.exportOnnx, failure);
  find(handle, "ts_quantize_model", library.quantizeModel, failure);
  find(handle, "ts_bytes_free", library.freeBytes, failure);
  find(handle, "ts_tuning_open", library.tuningOpen, failure);
  find(handle, "ts_tuning_free", library.tuningFree, failure);
  find(handle, "ts_tuning_describe", library.tuningDescribe, failure);
  find(handle, "ts_tuning_feature_names", library.tuningFeatureNames, failure);
  find(handle, "ts_tuning_features", library.tuningFeatures, failure);
  find(handle, "ts_tuning_loops", library.tuningLoops, failure);
  find(handle, "ts_tuning_build", library.tuningBuild, failure);
  find(handle, "ts_tuning_drop", library.tuningDrop, failure);
  find(handle, "ts_tuning_measure", library.tuningMeasure, failure);
  find(handle, "ts_tuning_measure_module", library.tuningMeasureModule, failure);
  find(handle, "ts_describe_interface", library.describeInterface, failure);
  find(handle, "ts_builder_create", library.builderCreate, failure);
  find(handle, "ts_builder_free", library.builderFree, failure);
  find(handle, "ts_builder_input", library.builderInput, failure);
  find(handle, "ts_builder_constant", library.builderConstant, failure);
  find(handle, "ts_builder_op", library.builderOp, failure);
  find(handle, "ts_builder_begin_if", library.builderBeginIf, failure);
  find(handle, "ts_builder_begin_loop", library.builderBeginLoop, failure);
  find(handle, "ts_builder_yield", library.builderYield, failure);
  find(handle, "ts_builder_output", library.builderOutput, failure);
  find(handle, "ts_builder_state", library.builderState, failure);
  find(handle, "ts_builder_type", library.builderType, failure);
  find(handle, "ts_builder_contents", library.builderContents, failure);
  find(handle, "ts_builder_differentiate", library.builderDifferentiate, failure);
  find(handle, "ts_builder_text", library.builderText, failure);
  find(handle, "ts_builder_compile", library.builderCompile, failure);
  find(handle, "ts_builder_compile_bytes", library.builderCompileBytes, failure);
  return library;
}

} // namespace

const CompilerLibrary &compilerLibrary() {
  static const CompilerLibrary library = open();
  return library;
}

} // namespace tensmith::client
