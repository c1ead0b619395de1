// Calls through the compiler library's C API.
#include "client/Compiler.h"

#include "base/Precision.h"
#include "cache/LoadedPlugins.h"
#include "client/CompilerLibrary.h"
#include "client/ModuleCache.h"
#include "client/Progress.h"
#include "client/Verbosity.h"
#include "files/Failure.h"
#include "files/Npy.h"
#include "files/Npz.h"
#include "train/Schedule.h"

#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/ranges.h>
#include <unistd.h>

namespace tensmith::client {
namespace {

/// Throws Failure where there is none.
const CompilerLibrary &library() {
  const CompilerLibrary &opened = compilerLibrary();
  if (!opened.failure.empty())
    throw Failure(opened.failure);
  return opened;
}

/// One of the process, so that compilations at the same time don't meet.
std::string defaultReproducer() {
  std::error_code none;
  std::string name = "tensmith-reproducer-" + std::to_string(::getpid()) + ".mlir";
  return std::filesystem::temp_directory_path(none) / name;
}

/// The arrays of an .npz file by name. `use`: what strings can't be, for the message.
std::map<std::string, Tensor> tensorsOf(const std::string &path, const std::string &use) {
  std::map<std::string, Tensor> tensors;
  Npz archive(path);
  for (const std::string &name : archive.names()) {
    HostTensor array = readNpy(archive.read(name), path + ": '" + name + "'");
    if (array.type() == DataType::String)
      fail(path, "'" + name + "' holds strings, which can't be " + use);
    Tensor tensor(ts_type(array.type()), array.shape());
    if (array.bytes())
      std::memcpy(tensor.data(), array.data(), size_t(array.bytes()));
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

/// The API's options, and the pointers that they hold.
struct Options {
  std::vector<const char *> shapes, keep, overridable, calibrated, casts;
  std::map<std::string, Tensor> calibration;
  std::vector<ts_tensor *> calibrationHandles;
  std::string reproducer;
  std::unique_ptr<tune::TunedPoints> tuned; // null: there are none
  ts_compile_options options;

  Options(const CompileSettings &settings, Progress &progress)
      : reproducer(settings.reproducer.empty() ? defaultReproducer() : settings.reproducer) {
    loadPlugins(settings.plugins);
    options = defaultOptions();
    for (const std::string &shape : settings.shapes)
      shapes.push_back(shape.c_str());
    options.shapes = shapes.data();
    options.shape_count = shapes.size();
    for (const std::string &name : settings.keep)
      keep.push_back(name.c_str());
    options.keep = keep.data();
    options.keep_count = keep.size();
    for (const std::string &name : settings.overridable)
      overridable.push_back(name.c_str());
    options.overridable = overridable.data();
    options.overridable_count = overridable.size();
    options.target = settings.target.empty() ? nullptr : settings.target.c_str();
    options.dump_ir_dir = settings.dumpIr.empty() ? nullptr : settings.dumpIr.c_str();
    if (settings.noCache || !settings.cacheDir.empty())
      options.cache_dir = settings.noCache ? "" : settings.cacheDir.c_str();
    options.threads = settings.threads;
    options.optimization = settings.optimization;
    options.evaluate_by_reference = settings.byReference;
    options.precision = ts_precision(std::ranges::find(kPrecisionNames, settings.precision) -
                                     kPrecisionNames.begin());
    for (const std::string &request : settings.casts)
      casts.push_back(request.c_str());
    options.casts = casts.data();
    options.cast_count = casts.size();
    options.fast_math = settings.fastMath;
    options.debug_info = settings.debugInfo;
    options.schedules = settings.schedules.empty() ? nullptr : settings.schedules.c_str();
    options.function = settings.function.empty() ? nullptr : settings.function.c_str();
    options.libraries = settings.libraries.c_str();
    options.seed = settings.seed ? &*settings.seed : nullptr;
    options.verify_each_pass = settings.verifyEachPass;
    options.check_bounds |= int(settings.checkBounds);
    options.reproducer = reproducer.c_str();
    options.progress = Progress::callback;
    options.progress_context = &progress;
    options.memory_limit = settings.memoryLimit;
    options.memory_budget = settings.memory;
    options.recomputation =
        settings.recomputation.empty() ? nullptr : settings.recomputation.c_str();
    options.device = settings.device.empty() ? nullptr : settings.device.c_str();
    options.for_evaluation = settings.forEvaluation;
    options.made_of = settings.madeOf.empty() ? nullptr : settings.madeOf.c_str();
    options.time_limit = settings.timeLimit;
    options.node_limit = settings.nodeLimit;
    options.nesting_limit = settings.nestingLimit;
    options.warn = settings.warns ? Progress::warnCallback : nullptr;
    options.warn_context = &progress;
    calibrate(settings.calibrate);
    tuned = takeTuned(settings.tuned, options,
                      [&](const std::string &message) { progress.warn(message); });
  }

  /// What was taken, after a compilation.
  Taken taken(Progress &progress) const {
    tellOfOthers(tuned.get(), [&](const std::string &message) { progress.warn(message); });
    return tuned ? Taken{tuned->path(), tuned->found()} : Taken{};
  }

private:
  void calibrate(const std::string &what) {
    if (what.empty())
      return;
    options.calibration = what == "random" ? TS_CALIBRATE_RANDOM : TS_CALIBRATE_GIVEN;
    if (options.calibration == TS_CALIBRATE_RANDOM)
      return;
    calibration = tensorsOf(what, "calibrated with");
    for (const auto &[name, tensor] : calibration) {
      calibrated.push_back(name.c_str());
      calibrationHandles.push_back(tensor.handle());
    }
    if (calibration.empty())
      fail(what, "has no arrays to calibrate with");
    options.calibration_names = calibrated.data();
    options.calibration_values = calibrationHandles.data();
    options.calibration_count = calibration.size();
    options.calibration_source = source_.assign(what).c_str();
  }
  std::string source_;
};

/// What a run of training says of its step, as the API takes it.
struct TrainingOptions {
  std::vector<const char *> names, trainable;
  std::vector<double> values;
  ts_training_options options{};

  explicit TrainingOptions(const TrainingRequest &request) {
    const train::Settings &settings = *request.settings;
    options.size = sizeof options;
    options.loss = settings.loss.c_str();
    options.of = settings.of.empty() ? nullptr : settings.of.c_str();
    options.optimiser = settings.optimiser.c_str();
    options.schedule = held_.emplace_back(train::scheduleProgram(settings)).c_str();
    for (const auto &[name, value] :
         train::scheduleConstants(settings, request.steps, request.stepsInEpoch))
      set(name, value);
    for (const auto &[name, value] : settings.hyperparameters)
      set(name, value);
    options.setting_names = names.data();
    options.setting_values = values.data();
    options.setting_count = names.size();
    options.clip_norm = settings.clipNorm;
    options.weight_decay = settings.weightDecay.value_or(0);
    options.no_weight_decay = settings.weightDecay == 0.0;
    options.ema_decay = settings.emaDecay;
    for (const std::string &name : settings.trainable)
      trainable.push_back(name.c_str());
    options.trainable = trainable.data();
    options.trainable_count = trainable.size();
    options.gradients_alone = request.gradientsAlone;
    options.seed = uint64_t(settings.seed);
  }

private:
  void set(const std::string &name, double value) {
    names.push_back(held_.emplace_back(name).c_str());
    values.push_back(value);
  }
  std::deque<std::string> held_;
};

std::string take(char *text) { return std::unique_ptr<char, detail::Deleter>(text).get(); }

/// The library's failures name the node; here the file is named, where they don't. `temporary` is
/// the file that stands for it.
template <typename Work>
auto naming(const std::string &file, Work work, const std::string &temporary = "") {
  try {
    return work();
  } catch (const Error &error) {
    std::string message = error.what();
    if (!temporary.empty() && message.starts_with(temporary + ": "))
      message.erase(0, temporary.size() + 2);
    throw Failure(message.find(file) == std::string::npos ? file + ": " + message : message);
  }
}

} // namespace

void loadPlugins(std::span<const std::string> paths) {
  for (const std::string &path : paths) {
    detail::check(library().loadPlugin(path.c_str()));
    cache::notePlugin(path);
  }
}

Taken compileModel(const std::string &model, const CompileSettings &settings,
                   const std::string &out) {
  if (kindOf(model) == FileKind::Module)
    fail(model, "is compiled already; give the model that it was made from");
  Progress progress("compiling " + model, settings.progress);
  Options options(settings, progress);
  naming(model, [&] {
    detail::check(library().compileFile(model.c_str(), &options.options, out.c_str()));
  });
  return options.taken(progress);
}

ts_tuning *openTuning(const std::string &model, const CompileSettings &settings,
                      const TrainingRequest *training) {
  if (kindOf(model) == FileKind::Module)
    fail(model, "is compiled already; give the model that it was made from");
  Progress progress("reading " + model, settings.progress);
  Options options(settings, progress);
  std::optional<TrainingOptions> step;
  if (training)
    options.options.training = &step.emplace(*training).options;
  ts_tuning *tuning = nullptr;
  naming(model,
         [&] { detail::check(library().tuningOpen(model.c_str(), &options.options, &tuning)); });
  return tuning;
}

void compileStep(const std::string &model, const CompileSettings &settings,
                 const TrainingRequest &request, const std::string &out) {
  Progress progress("compiling the step of " + model, settings.progress);
  Options options(settings, progress);
  TrainingOptions training(request);
  options.options.training = &training.options;
  naming(model, [&] {
    detail::check(library().compileFile(model.c_str(), &options.options, out.c_str()));
  });
}

bool compileUpdate(std::span<const train::Updated> tensors, int64_t processes,
                   const CompileSettings &settings, const TrainingRequest &request,
                   const std::string &out) {
  const std::string &model = request.settings->model;
  Progress progress("compiling the update of " + model, settings.progress);
  Options options(settings, progress);
  TrainingOptions training(request);
  options.options.training = &training.options;
  std::vector<ts_updated> updated;
  for (const train::Updated &tensor : tensors)
    updated.push_back({tensor.name.c_str(), ts_type(tensor.type), tensor.shape.data(),
                       tensor.shape.size(), tensor.part});
  bool mayBeRefused = processes > 1 && !tensors.empty() && !tensors[0].part;
  return naming(model, [&] {
    ts_status *status = library().compileUpdate(updated.data(), updated.size(), processes,
                                                &options.options, out.c_str());
    bool refused = mayBeRefused && status && ts_status_get_code(status) == TS_UNSUPPORTED;
    if (refused)
      ts_status_free(status);
    else
      detail::check(status);
    return !refused;
  });
}

namespace {

/// Names and handles side by side, as the API takes them.
struct NamedTensors {
  std::vector<const char *> names;
  std::vector<ts_tensor *> tensors;

  explicit NamedTensors(const std::map<std::string, Tensor> &values) {
    for (const auto &[name, tensor] : values) {
      names.push_back(name.c_str());
      tensors.push_back(tensor.handle());
    }
  }
};

Bytes takeBytes(void *bytes, size_t size) {
  std::unique_ptr<void, decltype(&ts_bytes_free)> owner(bytes, library().freeBytes);
  auto begin = static_cast<const std::byte *>(bytes);
  return Bytes(begin, begin + size);
}

std::vector<const char *> pointersTo(std::span<const std::string> texts) {
  std::vector<const char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(text.c_str());
  return pointers;
}

} // namespace

Bytes compileProgram(const std::string &text, const std::string &name, const std::string &folder,
                     std::span<const Derivative> derivatives, const CompileSettings &settings) {
  Progress progress("compiling " + name, settings.progress);
  Options options(settings, progress);
  std::deque<std::vector<const char *>> names;
  std::vector<ts_derivative> asked;
  for (const Derivative &derivative : derivatives) {
    const auto &of = names.emplace_back(pointersTo(derivative.of));
    const auto &by = names.emplace_back(pointersTo(derivative.by));
    asked.push_back({derivative.mode, of.data(), of.size(), by.data(), by.size(), 0});
  }
  options.options.derivatives = asked.data();
  options.options.derivative_count = asked.size();
  options.options.folder = folder.empty() ? nullptr : folder.c_str();
  void *bytes = nullptr;
  size_t size = 0;
  naming(name, [&] {
    detail::check(library().compileBytes(text.data(), text.size(), name.c_str(), &options.options,
                                         &bytes, &size));
  });
  return takeBytes(bytes, size);
}

Bytes replaceInitialisers(const std::string &model, const std::map<std::string, Tensor> &values) {
  NamedTensors given(values);
  void *bytes = nullptr;
  size_t size = 0;
  naming(model, [&] {
    detail::check(library().replaceInitialisers(model.c_str(), given.names.data(),
                                                given.tensors.data(), given.names.size(), &bytes,
                                                &size));
  });
  return takeBytes(bytes, size);
}

Bytes exportOnnx(const std::string &model, const CompileSettings &settings,
                 const std::map<std::string, Tensor> &values, std::string *refused) {
  Progress progress("exporting " + model, settings.progress);
  Options options(settings, progress);
  NamedTensors given(values);
  void *bytes = nullptr;
  size_t size = 0;
  naming(model, [&] {
    ts_status *status =
        library().exportOnnx(model.c_str(), &options.options, given.names.data(),
                             given.tensors.data(), given.names.size(), &bytes, &size);
    if (!refused || !status || ts_status_get_code(status) != TS_UNSUPPORTED)
      return detail::check(status);
    *refused = ts_status_message(status);
    ts_status_free(status);
  });
  return takeBytes(bytes, size);
}

QuantizedModel quantizeModel(const std::string &model, const Json &settings,
                             const std::string &samples, const CompileSettings &compile) {
  std::map<std::string, Tensor> arrays;
  if (!samples.empty())
    arrays = tensorsOf(samples, "quantised by");
  if (!samples.empty() && arrays.empty())
    fail(samples, "has no arrays to quantise by");
  Progress progress("quantising " + model, compile.progress);
  Options options(compile, progress);
  NamedTensors given(arrays);
  void *bytes = nullptr;
  size_t size = 0;
  char *report = nullptr;
  std::string text = settings.dump();
  naming(model, [&] {
    detail::check(library().quantizeModel(model.c_str(), text.c_str(), &options.options,
                                          given.names.data(), given.tensors.data(),
                                          given.names.size(), &bytes, &size, &report));
  });
  QuantizedModel result{takeBytes(bytes, size), {}};
  result.report = parseJson(take(report), "the report");
  return result;
}

static Module load(const std::string &path, bool verifyWeights, uint64_t bytes, Purpose purpose) {
  Module module = purpose == Purpose::Run ? Module::load(path, verifyWeights, bytes)
                                          : Module::loadDescribed(path, verifyWeights, bytes);
  if (std::string warning = module.warning(); !warning.empty())
    warn(path + ": " + warning);
  return module;
}

/// What can't be loaded after all, as a module of another version, is compiled again.
static std::optional<Module> loadKept(ModuleCache &cache, Progress &progress, Purpose purpose) {
  auto found = cache.find();
  if (!found)
    return std::nullopt;
  try {
    Module module =
        load(found->module.path(), /*verifyWeights=*/false, found->module.bytes(), purpose);
    for (const std::string &warning : found->warnings)
      progress.warn(warning);
    return module;
  } catch (const Error &) {
    return std::nullopt;
  }
}

/// Options that say how a module is made come too late where it is.
static void warnOfUnused(const std::string &path, const std::vector<std::string> &options) {
  if (options.empty())
    return;
  warn(fmt::format("{} is a module, which is compiled already: {} {} not heeded; give the model",
                   path, fmt::join(options, ", "), options.size() > 1 ? "are" : "is"));
}

Module loadOrCompile(const std::string &path, const CompileSettings &settings, bool verifyWeights,
                     Purpose purpose) {
  if (kindOf(path) == FileKind::Module) {
    warnOfUnused(path, settings.ofModels);
    loadPlugins(settings.plugins); // whose operators it may leave to their references
    return naming(path, [&] { return load(path, verifyWeights, 0, purpose); });
  }
  Progress progress("compiling " + path, settings.progress);
  Options options(settings, progress);
  ModuleCache cache(path, std::nullopt, options.options);
  if (auto found = loadKept(cache, progress, purpose)) {
    tell(path + ": was compiled before, and is taken from the cache");
    return std::move(*found);
  }
  tell(path + ": is not in the cache, and is compiled");
  cache.begin(options.options);
  TemporaryFolder folder;
  std::string module = folder.path() / "model.so";
  naming(path, [&] {
    detail::check(library().compileFile(path.c_str(), &options.options, module.c_str()));
  });
  options.taken(progress);
  if (cache.keepFile(module, ""))
    if (auto found = loadKept(cache, progress, purpose)) // whose memory the next process shares
      return std::move(*found);
  return naming(path, [&] { return load(module, verifyWeights, 0, purpose); }, module);
}

std::vector<Tensor> evaluateByReference(const std::string &model, const CompileSettings &settings,
                                        const std::vector<Tensor> &inputs, size_t outputs,
                                        const Observer &observe) {
  Progress progress("evaluating " + model, settings.progress);
  Options options(settings, progress);
  std::vector<ts_tensor *> given, results(outputs);
  for (const Tensor &input : inputs)
    given.push_back(input.handle());
  auto forward = [](void *context, const char *name, const char *source, ts_tensor *tensor) {
    ts_tensor_retain(tensor);
    (*static_cast<const Observer *>(context))(name, source, Tensor(tensor));
  };
  naming(model, [&] {
    detail::check(library().evaluateFile(
        model.c_str(), &options.options, given.data(), given.size(), results.data(), results.size(),
        observe ? +forward : nullptr, const_cast<Observer *>(&observe)));
  });
  std::vector<Tensor> tensors;
  for (ts_tensor *result : results)
    tensors.emplace_back(result);
  return tensors;
}

std::string describeModel(const std::string &model, const CompileSettings &settings) {
  Progress progress("reading " + model, settings.progress);
  Options options(settings, progress);
  char *json = nullptr;
  naming(model,
         [&] { detail::check(library().describeModel(model.c_str(), &options.options, &json)); });
  return take(json);
}

namespace {

using Describe = ts_status *(*)(const char *, const ts_compile_options *, char **);

std::string told(Describe describe, const std::string &model, const CompileSettings &settings) {
  Progress progress("compiling " + model, settings.progress);
  Options options(settings, progress);
  char *json = nullptr;
  naming(model, [&] { detail::check(describe(model.c_str(), &options.options, &json)); });
  return take(json);
}

} // namespace

std::string describeSpaces(const std::string &model, const CompileSettings &settings) {
  return told(library().describeSpaces, model, settings);
}

std::string explain(const std::string &model, const CompileSettings &settings) {
  return told(library().explain, model, settings);
}

std::string formatProgram(const std::string &program, const std::string &name) {
  char *formatted = nullptr;
  detail::check(library().formatProgram(program.data(), program.size(), name.c_str(), &formatted));
  return take(formatted);
}

std::string describeComprehensions(const std::string &text, const std::string &name) {
  char *json = nullptr;
  detail::check(library().describeComprehensions(text.data(), text.size(), name.c_str(), &json));
  return take(json);
}

std::string describeCompiler() {
  char *json = nullptr;
  detail::check(library().describeCompiler(&json));
  return take(json);
}

std::string compilerPath() {
  Dl_info info{};
  auto function = reinterpret_cast<const void *>(library().describeCompiler);
  return ::dladdr(function, &info) && info.dli_fname ? info.dli_fname : TENSMITH_COMPILER_LIBRARY;
}

std::string describeMachine() {
  char *json = nullptr;
  detail::check(library().describeMachine(&json));
  return take(json);
}

std::string measureMachine(bool again) {
  Progress progress("measuring this machine");
  ts_measure_options options{};
  options.size = sizeof options;
  options.again = again;
  options.progress = Progress::callback;
  options.progress_context = &progress;
  options.warn = Progress::warnCallback;
  options.warn_context = &progress;
  char *json = nullptr;
  detail::check(library().measureMachine(&options, &json));
  return take(json);
}

Json parseJson(const std::string &text, const std::string &what) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    throw Failure(what + ": its description is no JSON; this is a mistake in tensmith");
  return json;
}

} // namespace tensmith::client
