// Tuning through the C API: a handle that holds a model and its kernels' candidates.
#include <tensmith/compiler.h>

#include "compiler/api/Boundary.h"
#include "compiler/api/CompileOptions.h"
#include "compiler/api/Handles.h"
#include "compiler/api/ModelInContext.h"
#include "compiler/pipeline/TuningSession.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>

using namespace tensmith;

namespace tensmith::pipeline {

/// Its parent, then its numbers.
static llvm::json::Value toJSON(const LoopNode &node) {
  llvm::json::Array list(node.numbers);
  list.insert(list.begin(), node.parent);
  return list;
}

} // namespace tensmith::pipeline

struct ts_tuning {
  ts_compile_options options;
  ModelInContext model;
  std::unique_ptr<pipeline::TuningSession> session;
  std::map<size_t, pipeline::TuningSession::Built> built;
  size_t next = 0;
};

namespace {

std::string textOf(llvm::json::Value value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

/// What `ask` says of a kernel's code by those choices, under the tuning's limits, as JSON.
template <typename Ask>
ts_status *tellOfCode(ts_tuning *tuning, const char *key, const char *choices, char **json,
                      Ask ask) {
  return guarded([&]() -> Status {
    if (!tuning || !key || !choices || !json)
      return missing("an argument");
    CompileLimits limits(tuning->options);
    auto told = ask(*tuning->session);
    return told.ok() ? copyText(textOf(llvm::json::Array(*told)), json) : told.status();
  });
}

pipeline::CommandLimits limitsOf(const ts_tuning_run &run) {
  pipeline::CommandLimits limits;
  if (run.limit_seconds > 0)
    limits.seconds = run.limit_seconds;
  if (run.repeat_seconds > 0)
    limits.repeatSeconds = run.repeat_seconds;
  limits.threads = run.threads;
  return limits;
}

Result<ts_tuning_run> checkedRun(const ts_tuning_run *given) {
  ts_tuning_run run{};
  if (!given)
    return run;
  if (given->size < sizeof(size_t))
    return invalidArgument("the run's size is not set");
  std::memcpy(&run, given, std::min(given->size, sizeof run));
  for (size_t i = 0; i < run.command_count; ++i)
    if (!run.command || !run.command[i])
      return missing("a word of the runner's command");
  return run;
}

std::unique_ptr<pipeline::Measurer> measurerOf(const ts_tuning_run &run) {
  if (run.command_count == 0)
    return pipeline::measurerHere(limitsOf(run));
  return pipeline::commandMeasurer({run.command, run.command + run.command_count}, limitsOf(run));
}

Status tell(const pipeline::Measurement &timed, char **json) {
  llvm::json::Object object{{"outcome", pipeline::nameOf(timed.outcome).data()},
                            {"why", timed.why}};
  if (timed.outcome == pipeline::Measurement::Outcome::Timed)
    object["seconds"] = timed.seconds;
  return copyText(textOf(std::move(object)), json);
}

/// For each input of a module with known sizes: small numbers of floats, zeros of others.
Result<std::vector<pipeline::Candidate::Input>> madeUpInputs(const std::string &bytes) {
  auto loaded = loadModule(bytes);
  if (!loaded.ok())
    return loaded.status();
  std::vector<pipeline::Candidate::Input> inputs;
  for (size_t i = 0; i < ts_module_input_count(loaded->module.get()); ++i) {
    ts_port port = ts_module_input(loaded->module.get(), i);
    Shape shape;
    for (int64_t dim = 0; dim < port.rank; ++dim) {
      int64_t size = 0;
      if (!port.dims[dim] || llvm::StringRef(port.dims[dim]).getAsInteger(10, size))
        return unsupported("input '" + std::string(port.name) + "' has open sizes");
      shape.push_back(size);
    }
    HostTensor tensor(DataType(port.type), std::move(shape));
    for (int64_t element = 0; element < tensor.size(); ++element)
      tensor.setDouble(element, isFloat(tensor.type()) ? double(element % 127 - 63) / 64 : 0);
    inputs.push_back({port.name, std::move(tensor)});
  }
  return inputs;
}

/// What the session compiles with, for as long as the caller's options may be gone.
pipeline::CompileOptions sessionOptions(const ts_compile_options &options,
                                        const std::string &model) {
  pipeline::CompileOptions result = compileOptions(options, model);
  result.dumpFolder.clear();
  result.reproducer.clear();
  return result;
}

} // namespace

ts_status *ts_tuning_open(const char *path, const ts_compile_options *options, ts_tuning **tuning) {
  return guarded([&]() -> Status {
    if (!path || !tuning)
      return missing(path ? "the result" : "the path");
    *tuning = nullptr;
    auto known = checkedOptions(options);
    if (!known)
      return known.status();
    if (known->evaluate_by_reference || known->calibration != TS_CALIBRATE_NONE)
      return invalidArgument(
          "a model that is evaluated by reference, or calibrated, can't be tuned");
    CompileLimits limits(*known);
    auto made = std::make_unique<ts_tuning>();
    made->options = *known;
    if (Status status = made->model.load(std::string(path), *known); !status.ok())
      return status;
    auto session =
        pipeline::TuningSession::open(made->model.module(), sessionOptions(*known, path));
    if (!session.ok())
      return session.status();
    made->session = std::move(*session);
    *tuning = made.release();
    return {};
  });
}

void ts_tuning_free(ts_tuning *tuning) { delete tuning; }

ts_status *ts_tuning_describe(const ts_tuning *tuning, char **json) {
  return guarded([&]() -> Status {
    if (!tuning || !json)
      return missing(tuning ? "the result" : "the tuning");
    return copyText(tuning->session->json(), json);
  });
}

ts_status *ts_tuning_feature_names(char **json) {
  return guarded([&]() -> Status {
    if (!json)
      return missing("the result");
    llvm::json::Array names;
    for (const pipeline::FeatureName &feature : pipeline::loopFeatureNames())
      names.push_back(llvm::json::Object{{"name", feature.name}, {"meaning", feature.meaning}});
    return copyText(textOf(std::move(names)), json);
  });
}

ts_status *ts_tuning_features(ts_tuning *tuning, const char *key, const char *choices,
                              char **json) {
  return tellOfCode(tuning, key, choices, json,
                    [&](auto &session) { return session.features(key, choices); });
}

ts_status *ts_tuning_loops(ts_tuning *tuning, const char *key, const char *choices, char **json) {
  return tellOfCode(tuning, key, choices, json,
                    [&](auto &session) { return session.loops(key, choices); });
}

ts_status *ts_tuning_build(ts_tuning *tuning, const char *key, const char *choices,
                           size_t *candidate) {
  return guarded([&]() -> Status {
    if (!tuning || !key || !choices || !candidate)
      return missing("an argument");
    CompileLimits limits(tuning->options);
    auto built = tuning->session->build(key, choices);
    if (!built.ok())
      return built.status();
    *candidate = tuning->next++;
    tuning->built.emplace(*candidate, std::move(*built));
    return {};
  });
}

void ts_tuning_drop(ts_tuning *tuning, size_t candidate) {
  if (tuning)
    tuning->built.erase(candidate);
}

ts_status *ts_tuning_measure(ts_tuning *tuning, size_t candidate, const ts_tuning_run *run,
                             char **json) {
  return guarded([&]() -> Status {
    if (!tuning || !json)
      return missing(tuning ? "the result" : "the tuning");
    auto built = tuning->built.find(candidate);
    if (built == tuning->built.end())
      return invalidArgument("there is no candidate " + std::to_string(candidate));
    auto known = checkedRun(run);
    if (!known.ok())
      return known.status();
    return tell(tuning->session->measure(built->second, *measurerOf(*known)), json);
  });
}

ts_status *ts_tuning_measure_module(const char *path, const ts_tuning_run *run, char **json) {
  return guarded([&]() -> Status {
    if (!path || !json)
      return missing(path ? "the result" : "the path");
    auto known = checkedRun(run);
    if (!known.ok())
      return known.status();
    auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false);
    if (!file)
      return {StatusCode::IoError, std::string(path) + ": " + file.getError().message()};
    pipeline::Candidate candidate;
    candidate.module = (*file)->getBuffer().str();
    auto inputs = madeUpInputs(candidate.module);
    if (!inputs.ok())
      return inputs.status();
    candidate.inputs = std::move(*inputs);
    return tell(measurerOf(*known)->measure(candidate), json);
  });
}
