// The compiler, for programs that are given a model rather than a module.
//
// Its library is loaded when it is first needed: it brings LLVM along, and a module runs without.
#pragma once

#include "client/TunedOption.h"
#include "files/Files.h"
#include "train/Buckets.h"
#include "train/Settings.h"

#include <tensmith/compiler.h>
#include <tensmith/tensmith.hpp>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

namespace tensmith::client {

using Json = nlohmann::ordered_json;

/// What a program says of a compilation.
struct CompileSettings {
  std::vector<std::string> shapes; // "image=1x3x224x224", "batch=4"
  std::vector<std::string> keep;   // tensors that become outputs too; "*": all
  std::string target;
  std::string dumpIr;
  std::string cacheDir;
  bool noCache = false;
  bool byReference = false, verifyEachPass = false, checkBounds = false;
  bool warns = true;      // of what the compilation goes on without
  std::string reproducer; // empty: in the folder for temporary files
  int optimization = 1;
  std::string precision = "fast";
  std::vector<std::string> casts; // "matmul=never"
  bool fastMath = false, debugInfo = true;
  std::string schedules; // a file; empty: none
  std::string function;  // of a text of comprehensions; empty: its only one
  std::string libraries = "generated";
  int threads = 0;
  int64_t memoryLimit = 0; // of the compilation, and of the run that follows it
  int64_t memory = 0;      // bytes that a run may hold; 0: any
  std::string recomputation;
  std::string device;           // empty: the host
  std::optional<uint64_t> seed; // of random operators in an evaluation by reference
  bool forEvaluation = false;
  std::string calibrate; // "random", or an .npz file of inputs; empty: layers are tried alone
  std::string madeOf;    // goes into the module's metadata
  double timeLimit = 0;
  int64_t nodeLimit = 0;
  int nestingLimit = 0;
  std::vector<std::string> overridable; // initialisers that become inputs
  std::vector<std::string> plugins;     // paths of shared libraries
  TunedOption tuned;
  bool progress = true;              // on stderr
  std::vector<std::string> ofModels; // options that were given, and that modules can't follow
};

/// The options that ts_compile_options_init sets, without the library that has it.
inline ts_compile_options defaultOptions() {
  ts_compile_options options{};
  options.size = sizeof options;
  options.optimization = 1;
  options.debug_info = 1;
  const char *checks = std::getenv("TENSMITH_CHECK_BOUNDS");
  options.check_bounds = checks && *checks == '1';
  return options;
}

/// Opens the compiler's library for each; of one that was loaded before nothing happens.
void loadPlugins(std::span<const std::string> paths);

/// What a compilation took from a database of tuned points.
struct Taken {
  std::string database; // empty: there was none
  size_t points = 0;    // kernels that have one
};
/// Writes the module to `out`.
Taken compileModel(const std::string &model, const CompileSettings &settings,
                   const std::string &out);
/// A derivative of a program's results, by their names (ts_derivative).
struct Derivative {
  ts_derivative_mode mode;
  std::vector<std::string> of, by;
};
/// The module of a program of the language that is no file. `name` stands for one in messages, and
/// ends in .tsm; what the program imports lies in `folder`, empty: nothing.
Bytes compileProgram(const std::string &text, const std::string &name, const std::string &folder,
                     std::span<const Derivative> derivatives, const CompileSettings &settings);
/// What a module is loaded for: one that is only described may be of any machine.
enum class Purpose { Run, Describe };

/// A module as it is; a model's from the cache (ModuleCache.h), or else compiled, and kept there
/// where that can be done.
Module loadOrCompile(const std::string &path, const CompileSettings &settings,
                     bool verifyWeights = false, Purpose purpose = Purpose::Run);

/// What is compiled for a run of training, beside what is said of a compilation.
struct TrainingRequest {
  const train::Settings *settings;
  int64_t steps; // of the whole run, for the schedule
  int64_t stepsInEpoch;
  bool gradientsAlone = false; // the part of a step before the gradients of processes are summed
};
/// One step, as a module whose states are the parameters and what the optimiser keeps.
void compileStep(const std::string &model, const CompileSettings &settings,
                 const TrainingRequest &request, const std::string &out);
/// The part after it, which updates those tensors; of several `processes` each its own part of
/// them. False where they hold several parameters each, and the optimiser reads more of one than
/// the element that it updates.
bool compileUpdate(std::span<const train::Updated> tensors, int64_t processes,
                   const CompileSettings &settings, const TrainingRequest &request,
                   const std::string &out);
/// The model, or one step of its training where that is asked for, open for tuning; for
/// CompilerLibrary's functions, of which `tuningFree` frees it.
ts_tuning *openTuning(const std::string &model, const CompileSettings &settings,
                      const TrainingRequest *training);
/// The bytes of the ONNX model with other contents of initialisers.
Bytes replaceInitialisers(const std::string &model, const std::map<std::string, Tensor> &values);

/// The bytes of the model in ONNX, where constants at a program's top have those values. Where
/// `refused` isn't null, it is told why ONNX can't have the model, of which there are no bytes
/// then.
Bytes exportOnnx(const std::string &model, const CompileSettings &settings,
                 const std::map<std::string, Tensor> &values = {}, std::string *refused = nullptr);

struct QuantizedModel {
  Bytes model; // ONNX
  Json report;
};
/// The model with layers in few bits (ts_quantize_model). `samples`: the arrays of an .npz file;
/// empty: none.
QuantizedModel quantizeModel(const std::string &model, const Json &settings,
                             const std::string &samples, const CompileSettings &compile);

using Observer =
    std::function<void(const std::string &name, const std::string &source, const Tensor &tensor)>;
/// The model's first `outputs` outputs by the reference evaluator; each output and kept tensor goes
/// to `observe` when it is computed, with the node that computes it.
std::vector<Tensor> evaluateByReference(const std::string &model, const CompileSettings &settings,
                                        const std::vector<Tensor> &inputs, size_t outputs,
                                        const Observer &observe);
/// JSON from the library; `what` names it in the message where it isn't any.
Json parseJson(const std::string &text, const std::string &what);
/// JSON, as compiler.h says.
std::string describeModel(const std::string &model, const CompileSettings &settings);
/// What may be chosen of its kernels, and decided for its operators, as JSON (ts_describe_spaces).
std::string describeSpaces(const std::string &model, const CompileSettings &settings);
/// Why the kernels are what they are, as JSON (ts_explain).
std::string explain(const std::string &model, const CompileSettings &settings);
std::string describeMachine();
/// The compiler's version, LLVM's, and what it reads and writes, as JSON (ts_describe_compiler).
std::string describeCompiler();
/// Where its library lies.
std::string compilerPath();
/// The program of the language in its one layout; `name` stands for the file in messages.
std::string formatProgram(const std::string &program, const std::string &name);
/// The comprehensions of a text as JSON (ts_describe_comprehensions).
std::string describeComprehensions(const std::string &text, const std::string &name);
/// The machine with its limits, which are measured unless they were before; `again`: in any case.
std::string measureMachine(bool again);

} // namespace tensmith::client
