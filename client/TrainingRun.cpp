// From settings to a trained model: the data, the two modules, the loop, the result.
//
// The modules stay in the run's folder: a run that goes on takes the same code, and so the same
// bits, though the compiler or what it has measured of the machine may have changed.
#include "client/TrainingRun.h"

#include "base/Cpus.h"
#include "base/Hash.h"
#include "client/RunFolder.h"
#include "files/Failure.h"
#include "files/Npy.h"
#include "files/Words.h"
#include "train/Identity.h"
#include "train/ParallelTrainee.h"
#include "train/SettingTable.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <numeric>
#include <thread>

namespace tensmith::client {
namespace {

namespace fs = std::filesystem;

/// A model's inputs as its description has them: names, and dimensions as text.
std::vector<Port> inputsOf(const std::string &model, const CompileSettings &compile) {
  Json description = parseJson(describeModel(model, compile), model);
  std::vector<Port> ports;
  for (const Json &input : description["inputs"]) {
    Port port = {input["name"], TS_TENSOR, TS_UNDEFINED, input["dims"].is_array(), {}};
    if (port.ranked)
      for (const Json &dim : input["dims"])
        port.dims.push_back(dim);
    ports.push_back(port);
  }
  if (ports.empty())
    fail(model, "has no inputs");
  return ports;
}

bool isNumber(const std::string &text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// Fixes the batch: the first dimension of the inputs, where the model leaves it open. Each process
/// takes an equal part.
CompileSettings fixBatch(train::Settings &settings, int64_t processes, bool progress) {
  CompileSettings compile;
  compile.progress = progress;
  compile.shapes = settings.shapes;
  compile.plugins = settings.plugins;
  compile.threads = int(settings.threads);
  std::vector<std::string> fixed;
  for (const Port &input : inputsOf(settings.model, compile)) {
    std::string first = input.dims.empty() ? "" : input.dims[0];
    if (isNumber(first) && !settings.origins.contains("batch"))
      settings.batch = std::stoll(first.substr(0, 12)) * processes;
    else if (!first.empty() && !isNumber(first) && std::ranges::find(fixed, first) == fixed.end())
      fixed.push_back(first);
  }
  if (settings.batch % processes != 0)
    failUsage(
        fmt::format("{}: a batch of {} samples can't be shared out to {} processes; let it be "
                    "a multiple",
                    settings.origin("batch"), settings.batch, processes));
  for (const std::string &symbol : fixed)
    compile.shapes.push_back(fmt::format("{}={}", symbol, settings.batch / processes));
  return compile;
}

/// The size of pictures that the model's only input with such dimensions takes.
train::PictureSize pictureSize(const std::string &model, const CompileSettings &compile,
                               const std::string &where) {
  for (const Port &input : inputsOf(model, compile))
    if (input.dims.size() == 4 && std::all_of(input.dims.begin() + 1, input.dims.end(), isNumber)) {
      int64_t channels = std::stoll(input.dims[1].substr(0, 9));
      int64_t height = std::stoll(input.dims[2].substr(0, 9));
      int64_t width = std::stoll(input.dims[3].substr(0, 9));
      bool possible = (channels == 1 || channels == 3 || channels == 4) && height > 0 &&
                      width > 0 && height <= 1 << 14 && width <= 1 << 14;
      if (possible)
        return {int(height), int(width), int(channels)};
    }
  fail(where, "has pictures, but no input of the model is samples x channels x height x width, "
              "with 1, 3 or 4 channels and sizes that are known; fix them with --shape");
}

/// What a run needs beside its loop.
class Training {
public:
  /// `processes`: null where this is the only one.
  Training(train::Settings given, Samples samples, const TrainingHost &host,
           train::Processes *processes)
      : settings_(std::move(given)), samples_(std::move(samples)), host_(host),
        processes_(processes), compile_(fixBatch(settings_, count(), host.progress)),
        folder_(settings_, isFirst()) {
    if (samples_.train)
      paths_.test = settings_.test;
    else
      paths_ = train::findData(settings_);
    data_ = samples_.train ? *samples_.train : open(paths_.train, false);
    rows_ = train::split(data_.rows, settings_.validation, uint64_t(settings_.seed));
    modelHash_ = isProgram() ? train::hashOfProgram(settings_.model)
                             : toHex(hash128(readFile(settings_.model)));
    if (isFirst())
      dataHash_ = train::hashOf(data_);
    std::error_code none;
    if (fs::equivalent(settings_.model, folder_.path() / "model.onnx", none) ||
        (isProgram() && train::writesOver(folder_.path(), settings_.model)))
      fail(settings_.model, "it, or a file that it names, lies where the trained model would be "
                            "written; give another --output");
  }

  Trained run() {
    std::unique_ptr<train::Watcher> watcher = host_.watch(isFirst());
    std::optional<train::Checkpoint> from = prepare(*watcher);
    std::unique_ptr<train::CompiledTrainee> trainee = makeTrainee();
    train::RunData data = bind(*trainee);
    if (from)
      watcher->say(fmt::format("going on from {}", from->path.string()));
    watcher->say(describe(*trainee, data));
    if (train::isBuiltIn(settings_.loss))
      watcher->say("the target is '" + printable(targetName()) + "'");
    if (auto *parallel = dynamic_cast<train::ParallelTrainee *>(trainee.get()))
      watcher->say(fmt::format("{} processes; this one has {} bytes of the optimiser's state",
                               count(), parallel->slotBytes()));
    if (!train::isBuiltIn(settings_.loss) && !takesAnyBatch())
      sayWhatIsLeftOut(data, *watcher);
    if (std::string refused; isFirst() && isProgram() && asOnnx(*trainee, refused).empty())
      watcher->warn(refused + "; so there will be no model.onnx");
    train::Outcome outcome = train::runTraining(settings_, folder_.path(), *trainee, data, from,
                                                remembered(), *watcher, host_.stop, processes_);
    trainee->settle();
    if (outcome.interrupted && isFirst() && host_.interrupted)
      host_.interrupted(*watcher, outcome);
    if (outcome.interrupted && processes_)
      processes_->meet();
    if (isFirst() && (!outcome.interrupted || host_.stop == kEnough))
      exportModel(*trainee);
    return {isFirst(), folder_.path(), modelFile(), outcome, trainee->tensors()};
  }

private:
  /// Of what is evaluated in batches that can't be smaller.
  void sayWhatIsLeftOut(const train::RunData &data, train::Watcher &watcher) const {
    int64_t batch = settings_.batch / count();
    for (auto [kind, rows] :
         {std::pair("validation", int64_t(rows_.validation.size())), {"test", data.testRows}}) {
      int64_t left = 0;
      for (int i = 0; i < count(); ++i)
        left += (rows * (i + 1) / count() - rows * i / count()) % batch;
      if (left > 0)
        watcher.warn(fmt::format("{}: takes {} samples at a time, and its own loss is of all of "
                                 "them: the last {} of the {} don't count",
                                 settings_.model, batch, left, kind));
    }
  }

  bool isFirst() const { return !processes_ || processes_->rank() == 0; }
  int count() const { return processes_ ? processes_->size() : 1; }

  /// The modules, which the first process makes, and where to go on from.
  std::optional<train::Checkpoint> prepare(train::Watcher &watcher) {
    std::optional<train::Checkpoint> from;
    if (isFirst()) {
      from = checkpoint(watcher);
      compileModules(from.has_value());
    }
    double apart[1] = {apart_ ? 1.0 : 0.0}; // the others learn it from the first
    if (processes_)
      processes_->sum(apart);
    apart_ = apart[0] > 0;
    if (!isFirst()) {
      from = checkpoint(watcher);
      loadModules();
    }
    return from;
  }

  std::unique_ptr<train::CompiledTrainee> makeTrainee() {
    std::unique_ptr<train::CompiledTrainee> trainee;
    if (processes_)
      trainee = std::make_unique<train::ParallelTrainee>(*step_, *update_, *forward_, settings_,
                                                         layout(), *processes_, host_.stop);
    else
      trainee = std::make_unique<train::CompiledTrainee>(*step_, *forward_, settings_);
    if (hasRests())
      trainee->evaluateRestsBy(*rest_);
    if (isFirst())
      trainee->traceTo(settings_.trace);
    return trainee;
  }

  train::Dataset open(const std::vector<std::string> &paths, bool test) {
    auto size = [&](const std::string &where) {
      return pictureSize(settings_.model, compile_, where);
    };
    return train::openDataset(paths, settings_.format, test, size);
  }

  int64_t stepsInEpoch() const { return int64_t(rows_.train.size()) / settings_.batch; }

  train::Metadata remembered() const {
    return {
        {"settings", train::toJson(settings_).dump(-1, ' ', false, Json::error_handler_t::replace)},
        {"model_hash", modelHash_},
        {"data_hash", dataHash_},
        {"optimiser_hash", train::hashOfProgram(settings_.optimiser)},
        {"schedule_hash", train::hashOfProgram(settings_.schedule)},
        {"rows", std::to_string(data_.rows)}};
  }

  /// Where to go on from; refuses to mix runs.
  std::optional<train::Checkpoint> checkpoint(train::Watcher &watcher) {
    train::Checkpoints checkpoints(folder_.path() / "checkpoints", settings_.keep);
    if (isFirst()) {
      checkpoints.removePartial();
      if (settings_.overwrite && !settings_.resume)
        train::removeRun(folder_.path(), settings_.model);
    }
    std::vector<int64_t> steps = checkpoints.steps();
    if (!settings_.resume && !steps.empty())
      fail(folder_.path(), fmt::format("has a run already, up to step {}; go on with it by "
                                       "--resume, give another --output, or --overwrite it",
                                       steps[0]));
    if (!settings_.resume)
      return std::nullopt;
    auto found = checkpoints.newest([&](const std::string &line) { watcher.warn(line); });
    if (!found && !steps.empty())
      fail(folder_.path(), "has no checkpoint that is whole; begin anew with --overwrite");
    if (found && isFirst())
      checkIsSame(*found);
    return found;
  }

  void checkIsSame(const train::Checkpoint &checkpoint) const {
    auto entry = [&](const char *key) {
      auto found = checkpoint.contents.metadata.find(key);
      return found == checkpoint.contents.metadata.end() ? std::string() : found->second;
    };
    Json recorded = Json::parse(entry("settings"), nullptr, /*allow_exceptions=*/false);
    auto changes = train::changedSince(recorded.is_object() ? recorded : Json::object(), settings_);
    if (entry("model_hash") != modelHash_)
      changes.push_back("the model's file was another");
    if (entry("rows") != std::to_string(data_.rows))
      changes.push_back(fmt::format("the data had {} samples", printable(entry("rows"))));
    else if (entry("data_hash") != dataHash_)
      changes.push_back(fmt::format("the data in {} were others", data_.where));
    for (const auto &[kind, program] :
         {std::pair("optimiser", &settings_.optimiser), {"schedule", &settings_.schedule}})
      if (entry((std::string(kind) + "_hash").c_str()) != train::hashOfProgram(*program))
        changes.push_back(fmt::format("the {}'s program {} was another", kind, *program));
    if (!changes.empty())
      fail(checkpoint.path, fmt::format("was made by other settings: {}; give the same, or begin "
                                        "anew with --overwrite",
                                        fmt::join(changes, ", ")));
  }

  /// Files in the run's folder. What a process of several computes depends on how many there are.
  std::string stepFile() const {
    return folder_.path() /
           (processes_ ? fmt::format("gradients-{}.so", count()) : std::string("step.so"));
  }
  std::string forwardFile() const {
    return folder_.path() /
           (processes_ ? fmt::format("forward-{}.so", count()) : std::string("forward.so"));
  }
  std::string updateFile() const { return folder_.path() / "update.so"; }
  std::string restFile() const { return folder_.path() / "rest.so"; }

  /// A loss of the model's own is one number of a batch: of samples that don't fill one it is
  /// computed by a module that takes any number of them.
  bool hasRests() const {
    bool judges = !rows_.validation.empty() || samples_.test || !paths_.test.empty();
    return judges && !train::isBuiltIn(settings_.loss) && takesAnyBatch();
  }
  bool takesAnyBatch() const { return compile_.shapes.size() > settings_.shapes.size(); }

  void loadModules() {
    step_ = Module::load(stepFile(), /*verifyWeights=*/true);
    forward_ = Module::load(forwardFile(), /*verifyWeights=*/true);
    if (hasRests())
      rest_ = Module::load(restFile(), /*verifyWeights=*/true);
    if (processes_)
      update_ = Module::load(updateFile(), /*verifyWeights=*/true);
  }

  /// The module that is there, if it is of this very run: a folder may have those of another one,
  /// of other settings or of more processes, or of another version of Tensmith.
  std::optional<Module> existing(const std::string &file) const {
    std::error_code none;
    if (!fs::exists(file, none))
      return std::nullopt;
    try {
      Module module = Module::load(file, /*verifyWeights=*/true);
      Json metadata = parseJson(module.describe(), file)["metadata"];
      if (metadata.value("made_of", "") == compile_.madeOf)
        return module;
    } catch (const Error &) { // of another version, or damaged
    }
    return std::nullopt;
  }

  /// What evaluates, with the parameters as inputs.
  Module compileForward(const std::vector<std::string> &shapes, const std::string &file) const {
    CompileSettings open = compile_;
    open.shapes = shapes;
    open.overridable = train::parameterNames(*step_);
    open.forEvaluation = true;
    compileModel(settings_.model, open, file);
    return Module::load(file);
  }

  /// Compiled unless the run has them from before. What updates depends on what is shared out, and
  /// is made in no time.
  void compileModules(bool resumed) {
    compile_.madeOf = train::hashOfModules(settings_, modelHash_, stepsInEpoch(), count());
    if (resumed) {
      step_ = existing(stepFile());
      forward_ = existing(forwardFile());
      rest_ = existing(restFile());
    }
    CompileSettings budgeted = compile_;
    budgeted.memory = settings_.memory.bytes;
    budgeted.recomputation = settings_.recomputation;
    budgeted.precision = settings_.precision;
    budgeted.casts = settings_.casts;
    budgeted.libraries = settings_.libraries;
    TrainingRequest request = {&settings_, stepsInEpoch() * settings_.epochs, stepsInEpoch(),
                               processes_ != nullptr};
    if (!step_) {
      compileStep(settings_.model, budgeted, request, stepFile());
      step_ = Module::load(stepFile());
    }
    if (!forward_)
      forward_ = compileForward(compile_.shapes, forwardFile());
    if (hasRests() && !rest_)
      rest_ = compileForward(settings_.shapes, restFile());
    if (!processes_)
      return;
    CompileSettings update = compile_;
    update.precision = settings_.precision;
    int64_t processes = settings_.zero > 0 ? count() : 1;
    apart_ = !compileUpdate(layout().updated, processes, update, request, updateFile());
    if (apart_)
      compileUpdate(layout().updated, processes, update, request, updateFile());
    update_ = Module::load(updateFile());
  }

  train::Layout layout() const { return train::layOut(*step_, settings_, count(), apart_); }

  train::RunData bind(const train::CompiledTrainee &trainee) {
    train::Normalisation normalisation = {settings_.scale, settings_.mean, settings_.deviation};
    std::string target = train::isBuiltIn(settings_.loss) ? train::kTarget : "";
    auto ports = train::feedPorts(*step_, settings_.batch / count(), settings_.model);
    auto feeds = [&](const train::Dataset &data) {
      auto bound = train::bindFeeds(data, ports, target, settings_.target, normalisation);
      for (train::Feed &feed : bound)
        if (feed.port().name == target)
          feed.limitClasses(trainee.classes());
      return bound;
    };
    train::RunData data;
    data.train = data.evaluation = feeds(data_);
    for (train::Feed &feed : data.train)
      if (feed.port().name != target && (ports.size() == 1 || feed.port().shape.size() >= 2))
        feed.augment({settings_.crop, settings_.flip, uint64_t(settings_.seed)});
    data.rows = rows_;
    if (samples_.test || !paths_.test.empty()) {
      test_ = samples_.test ? *samples_.test : open(paths_.test, true);
      if (test_.classes != data_.classes)
        fail(test_.where, "has other classes than " + data_.where);
      data.test = feeds(test_);
      data.testRows = test_.rows;
    }
    return data;
  }

  std::string targetName() const {
    int target = train::targetOf(data_, settings_.target);
    return target < 0 ? "" : data_.columns[size_t(target)]->name;
  }

  std::string describe(const train::CompiledTrainee &trainee, const train::RunData &data) const {
    return fmt::format("{}: {} parameters; {} samples to train on, {} for validation, {} to test; "
                       "{} steps of {} in an epoch; in {}",
                       settings_.model, trainee.parameterCount(), rows_.train.size(),
                       rows_.validation.size(), data.testRows, stepsInEpoch(), settings_.batch,
                       folder_.path().string());
  }

  /// What an ONNX model has as initialisers, and a program as constants.
  std::map<std::string, Tensor> weightsOf(train::CompiledTrainee &trainee) const {
    std::map<std::string, Tensor> trained = trainee.parameters(), weights;
    for (const std::string &name : train::parameterNames(*step_))
      weights.emplace(name, trained.at(name));
    return weights;
  }

  /// What the result is made with: sizes that were given, and the batch open.
  CompileSettings openBatch() const {
    CompileSettings compile;
    compile.shapes = settings_.shapes;
    compile.progress = host_.progress;
    return compile;
  }

  Bytes asOnnx(train::CompiledTrainee &trainee, std::string &refused) const {
    return exportOnnx(settings_.model, openBatch(), weightsOf(trainee), &refused);
  }

  void exportModel(train::CompiledTrainee &trainee) {
    std::map<std::string, Tensor> weights = weightsOf(trainee);
    for (const auto &[name, tensor] : weights)
      if (fs::path file = folder_.path() / ("weights/" + name + ".npy"); isProgram()) {
        fs::create_directories(file.parent_path());
        writeFile(file, writeNpy(train::view(tensor)));
      }
    writeFile(modelFile(), replaceInitialisers(settings_.model, weights));
    std::string refused;
    if (Bytes onnx = isProgram() ? asOnnx(trainee, refused) : Bytes(); !onnx.empty())
      writeFile(folder_.path() / "model.onnx", onnx);
    compileModel(modelFile(), openBatch(), folder_.path() / "model.so");
  }

  fs::path modelFile() const { return folder_.path() / (isProgram() ? "model.tsm" : "model.onnx"); }
  bool isProgram() const { return settings_.model.ends_with(".tsm"); }

  train::Settings settings_;
  Samples samples_;
  const TrainingHost &host_;
  train::Processes *processes_;
  CompileSettings compile_;
  RunFolder folder_;
  train::DataPaths paths_;
  train::Dataset data_, test_;
  train::Split rows_;
  std::string modelHash_, dataHash_;              // the latter the first process has
  bool apart_ = false;                            // parameters have buckets of their own
  std::optional<Module> step_, forward_, update_; // the last where there are several processes
  std::optional<Module> rest_;                    // see hasRests
};

Trained trainAlone(train::Settings settings, Samples samples, const TrainingHost &host) {
  if (settings.processes > 1)
    failUsage(fmt::format("{} asks for {} processes; start them with mpirun -n {} tensmith train",
                          settings.origin("processes"), settings.processes, settings.processes));
  return Training(std::move(settings), std::move(samples), host, nullptr).run();
}

/// As one of several processes: what fails here ends all of them.
Trained trainWithOthers(train::Settings settings, Samples samples, const TrainingHost &host) {
  int threads = settings.threads > 0 ? int(settings.threads) : availableCpus();
  std::unique_ptr<train::Processes> processes = train::openMpi(settings.processTimeout, threads);
  if (processes->size() == 1) {
    processes.reset();
    return trainAlone(std::move(settings), std::move(samples), host);
  }
  try {
    if (settings.processes && settings.processes != processes->size())
      failUsage(fmt::format("{} asks for {} processes, but {} were started; start them with mpirun "
                            "-n {}",
                            settings.origin("processes"), settings.processes, processes->size(),
                            settings.processes));
    return Training(std::move(settings), std::move(samples), host, processes.get()).run();
  } catch (const std::exception &failure) {
    auto *known = dynamic_cast<const Failure *>(&failure);
    std::cout.flush();
    // What fails on all of them alike, as settings do, the first says alone, and ends the others.
    if (processes->rank() > 0)
      std::this_thread::sleep_for(std::chrono::seconds(1));
    std::fprintf(stderr, "tensmith: process %d of %d: %s\n", processes->rank(), processes->size(),
                 failure.what());
    // mpirun may drop what it has not passed on when it ends the others.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    processes->abort(known ? known->status : kFailure);
  }
}

} // namespace

Trained trainModel(train::Settings settings, Samples samples, const TrainingHost &host) {
  if (kindOf(settings.model) == FileKind::Module)
    fail(settings.model, "is compiled already; give the ONNX model that it was made from");
  return train::startedProcesses() == 1
             ? trainAlone(std::move(settings), std::move(samples), host)
             : trainWithOthers(std::move(settings), std::move(samples), host);
}

} // namespace tensmith::client
