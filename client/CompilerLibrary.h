// The compiler's library, opened when a model is first compiled.
//
// It brings LLVM along: tens of megabytes of relocations and of start time, which a process that
// only loads and runs modules must not pay for.
#pragma once

#include <tensmith/builder.h>

#include <string>

namespace tensmith::client {

/// compiler.h's and builder.h's functions, by the names that they have there.
struct CompilerLibrary {
  decltype(&ts_load_plugin) loadPlugin = nullptr;
  decltype(&ts_compile_file) compileFile = nullptr;
  decltype(&ts_compile_bytes) compileBytes = nullptr;
  decltype(&ts_compile_update) compileUpdate = nullptr;
  decltype(&ts_evaluate_file) evaluateFile = nullptr;
  decltype(&ts_describe_model) describeModel = nullptr;
  decltype(&ts_describe_spaces) describeSpaces = nullptr;
  decltype(&ts_explain) explain = nullptr;
  decltype(&ts_describe_machine) describeMachine = nullptr;
  decltype(&ts_format_program) formatProgram = nullptr;
  decltype(&ts_describe_comprehensions) describeComprehensions = nullptr;
  decltype(&ts_measure_machine) measureMachine = nullptr;
  decltype(&ts_describe_compiler) describeCompiler = nullptr;
  decltype(&ts_replace_initialisers) replaceInitialisers = nullptr;
  decltype(&ts_export_onnx) exportOnnx = nullptr;
  decltype(&ts_quantize_model) quantizeModel = nullptr;
  decltype(&ts_bytes_free) freeBytes = nullptr;
  decltype(&ts_tuning_open) tuningOpen = nullptr;
  decltype(&ts_tuning_free) tuningFree = nullptr;
  decltype(&ts_tuning_describe) tuningDescribe = nullptr;
  decltype(&ts_tuning_feature_names) tuningFeatureNames = nullptr;
  decltype(&ts_tuning_features) tuningFeatures = nullptr;
  decltype(&ts_tuning_loops) tuningLoops = nullptr;
  decltype(&ts_tuning_build) tuningBuild = nullptr;
  decltype(&ts_tuning_drop) tuningDrop = nullptr;
  decltype(&ts_tuning_measure) tuningMeasure = nullptr;
  decltype(&ts_tuning_measure_module) tuningMeasureModule = nullptr;
  decltype(&ts_describe_interface) describeInterface = nullptr;
  decltype(&ts_builder_create) builderCreate = nullptr;
  decltype(&ts_builder_free) builderFree = nullptr;
  decltype(&ts_builder_input) builderInput = nullptr;
  decltype(&ts_builder_constant) builderConstant = nullptr;
  decltype(&ts_builder_op) builderOp = nullptr;
  decltype(&ts_builder_begin_if) builderBeginIf = nullptr;
  decltype(&ts_builder_begin_loop) builderBeginLoop = nullptr;
  decltype(&ts_builder_yield) builderYield = nullptr;
  decltype(&ts_builder_output) builderOutput = nullptr;
  decltype(&ts_builder_state) builderState = nullptr;
  decltype(&ts_builder_type) builderType = nullptr;
  decltype(&ts_builder_contents) builderContents = nullptr;
  decltype(&ts_builder_differentiate) builderDifferentiate = nullptr;
  decltype(&ts_builder_text) builderText = nullptr;
  decltype(&ts_builder_compile) builderCompile = nullptr;
  decltype(&ts_builder_compile_bytes) builderCompileBytes = nullptr;
  std::string failure; // why there is none; empty where there is
};

/// The one of the process.
const CompilerLibrary &compilerLibrary();

} // namespace tensmith::client
