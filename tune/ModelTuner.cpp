// Rounds, then the model before and after; see ModelTuner.h.
#include "tune/ModelTuner.h"

#include "files/Failure.h"
#include "files/Files.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tensmith::tune {
namespace {

using client::Json;
using Clock = std::chrono::steady_clock;

class ModelTuning {
public:
  ModelTuning(const TuneRequest &request, const TuneCallbacks &callbacks)
      : request_(request), callbacks_(callbacks), database_(request.database, Access::Write),
        session_(request.model, untuned(), request.training, request.runners, callbacks.say),
        kernels_(session_.kernels()), random_(request.tuning.seed) {
    settings_ = request.tuning;
    settings_.compiler =
        client::parseJson(client::describeCompiler(), "the compiler").value("version", "");
    for (const TunableKernel &kernel : kernels_) {
      tuners_.push_back(std::make_unique<KernelTuner>(kernel, session_, database_, settings_));
      Task task;
      task.uses = kernel.uses;
      task.flops = kernel.flops;
      task.bytes = kernel.bytes;
      task.kind = kernel.kind;
      task.isDone = !kernel.untunable.empty();
      tasks_.push_back(std::move(task));
      winners_.push_back(database_.winner(kernel.name.machine, kernel.name.key));
    }
  }

  Json run() {
    while (!isOver())
      if (auto next = nextTask(tasks_, random_))
        round(*next);
      else
        break;
    Json report = kernelsReport();
    if (request_.measuresModel)
      measureModel(report);
    return report;
  }

private:
  client::CompileSettings untuned() const {
    client::CompileSettings settings = request_.compile;
    settings.tuned = {"", false};
    return settings;
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool isStopped() const { return callbacks_.stop && callbacks_.stop->load(); }

  /// The model's own times come after the box.
  bool isOver() const {
    return isStopped() || (request_.trials && trials_ >= request_.trials) ||
           (request_.seconds > 0 && elapsed() >= request_.seconds);
  }

  void round(size_t number) {
    KernelTuner &tuner = *tuners_[number];
    Task &task = tasks_[number];
    size_t left = request_.trials ? size_t(request_.trials - trials_) : settings_.batch;
    size_t made = tuner.step(std::min(left, settings_.batch));
    trials_ += int64_t(made);
    task.trials += int64_t(made);
    task.isDone = made == 0;
    if (task.history.empty() && tuner.before() > 0)
      task.history.push_back(tuner.before());
    task.best = tuner.best();
    task.history.push_back(task.best);
    if (made == 0 && !tuner.broken().empty() && callbacks_.say)
      callbacks_.say(tuner.kernel().name.structure + " is left as it is: " + tuner.broken());
    if (!callbacks_.progress)
      return;
    double before = 0, gain = 0;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      before += tasks_[i].uses * tuners_[i]->before();
      gain = std::max(gain, expectedGain(tasks_[i], tasks_) / double(settings_.batch));
    }
    callbacks_.progress(
        {elapsed(), trials_, before, totalSeconds(tasks_), gain, tuner.kernel().name.structure});
  }

  Json kernelsReport() {
    Json rows = Json::array();
    int64_t failures = 0;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const TunableKernel &kernel = kernels_[i];
      const KernelTuner &tuner = *tuners_[i];
      failures += tuner.failures();
      Json curve = Json::array(), importances = Json::object(), predicted = Json::array();
      for (double best : tuner.curve())
        curve.push_back(best * 1e6);
      for (const auto &[name, share] : tuner.importances())
        importances[name] = share;
      for (const auto &each : tuner.predictions())
        predicted.push_back({each.score, each.seconds * 1e6});
      rows.push_back({{"key", kernel.name.key},
                      {"kernel", kernel.name.structure},
                      {"nodes", kernel.nodes},
                      {"template", kernel.kind},
                      {"uses", kernel.uses},
                      {"points", kernel.space.size()},
                      {"trials", tuner.trials()},
                      {"failures", tuner.failures()},
                      {"before_us", tuner.before() * 1e6},
                      {"after_us", tuner.best() * 1e6},
                      {"choices", tuner.choices()},
                      {"estimated", kernel.estimated},
                      {"untunable", kernel.untunable.empty() ? tuner.broken() : kernel.untunable},
                      {"curve_us", curve},
                      {"importances", importances},
                      {"predicted", predicted}});
    }
    return {{"model", request_.model},       {"machine", session_.machine()},
            {"database", request_.database}, {"trials", trials_},
            {"failures", failures},          {"seconds", elapsed()},
            {"before_ms", nullptr},          {"after_ms", nullptr},
            {"confidence", nullptr},         {"kernels", rows}};
  }

  bool hasNewWinners() const {
    for (size_t i = 0; i < tuners_.size(); ++i) {
      auto winner = database_.winner(kernels_[i].name.machine, kernels_[i].name.key);
      if (winner && (!winners_[i] || winners_[i]->choices != winner->choices))
        return true;
    }
    return false;
  }

  void compile(const client::CompileSettings &settings, const std::string &out) const {
    if (request_.training)
      client::compileStep(request_.model, settings, *request_.training, out);
    else
      client::compileModel(request_.model, settings, out);
  }

  void measureModel(Json &report) {
    TemporaryFolder folder;
    std::string plain = folder.path() / "before.so", tuned = folder.path() / "after.so";
    client::CompileSettings with = request_.compile;
    with.tuned = {request_.database, true};
    compile(untuned(), plain);
    compile(with, tuned);
    bool isSame = readFile(plain) == readFile(tuned); // nothing won: times would differ by noise
    constexpr int kFewest = 5, kMost = 15;
    std::vector<double> before, after;
    Verdict verdict;
    for (int turn = 0; turn < kMost; ++turn) {
      RunOutcome first = session_.runModule(turn % 2 ? plain : tuned);
      RunOutcome second = session_.runModule(turn % 2 ? tuned : plain);
      if (!first.isTimed() || !second.isTimed()) {
        if (callbacks_.say)
          callbacks_.say("the model is not measured: " +
                         (first.isTimed() ? second.why : first.why));
        return;
      }
      after.push_back(turn % 2 ? second.seconds : first.seconds);
      before.push_back(turn % 2 ? first.seconds : second.seconds);
      verdict = judge(after, before);
      bool isSure = verdict.confidence > 0.99 || verdict.confidence < 0.01;
      if (turn + 1 >= kFewest && (isSure || isSame || isStopped()))
        break;
    }
    report["before_ms"] = medianOf(before) * 1e3;
    report["after_ms"] = medianOf(isSame ? before : after) * 1e3;
    if (isSame)
      return;
    report["confidence"] = verdict.confidence;
    constexpr double kSlower = 0.05; // of the confidence that it is faster
    if (verdict.confidence < kSlower && hasNewWinners())
      takeBack(report, before);
  }

  void takeBack(Json &report, const std::vector<double> &before) {
    for (size_t i = 0; i < kernels_.size(); ++i)
      if (winners_[i])
        database_.setWinner(kernels_[i].name, *winners_[i]);
      else
        database_.removeWinner(kernels_[i].name);
    report["after_ms"] = medianOf(before) * 1e3;
    report["taken_back"] = true;
    if (callbacks_.say)
      callbacks_.say("the model as a whole was not faster by what its kernels won; their points of "
                     "this run are taken back, and the trials kept");
  }

  const TuneRequest &request_;
  const TuneCallbacks &callbacks_;
  Clock::time_point start_ = Clock::now();
  Database database_;
  ModelSession session_;
  std::vector<TunableKernel> kernels_;
  Random random_;
  TuningSettings settings_;
  std::vector<std::unique_ptr<KernelTuner>> tuners_;
  std::vector<Task> tasks_;
  std::vector<std::optional<Winner>> winners_; // before this run
  int64_t trials_ = 0;
};

} // namespace

Json tuneModel(const TuneRequest &request, const TuneCallbacks &callbacks) {
  return ModelTuning(request, callbacks).run();
}

} // namespace tensmith::tune
