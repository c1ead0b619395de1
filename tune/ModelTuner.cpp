// Rounds, then the model before and after; see ModelTuner.h.
#include "tune/ModelTuner.h"

#include "tune/DecisionBench.h"

#include "files/Failure.h"
#include "files/Files.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tensmith::tune {
namespace {

using client::Json;
using Clock = std::chrono::steady_clock;

/// Tasks of kernels that nobody has run.
Task taskOf(const TunableKernel &kernel) {
  Task task;
  task.uses = kernel.uses;
  task.flops = kernel.flops;
  task.bytes = kernel.bytes;
  task.kind = kernel.kind;
  task.isDone = !kernel.untunable.empty();
  return task;
}

/// What the kernels have to do that come from nodes of the operator.
double weightOf(const TunableKernel &decision, std::span<const TunableKernel> kernels) {
  double weight = 0;
  for (const TunableKernel &kernel : kernels)
    if (std::ranges::find_first_of(kernel.nodes, decision.nodes) != kernel.nodes.end())
      weight += weightOf(taskOf(kernel));
  return weight;
}

class ModelTuning {
public:
  ModelTuning(const TuneRequest &request, const TuneCallbacks &callbacks)
      : request_(request), callbacks_(callbacks), database_(request.database, Access::Write),
        session_(open(untuned())), random_(request.tuning.seed) {
    settings_ = request.tuning;
    settings_.compiler =
        client::parseJson(client::describeCompiler(), "the compiler").value("version", "");
  }

  Json run() {
    if (request_.tunesDecisions)
      tuneDecisions();
    openKernels();
    while (!isOver(1))
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
  client::CompileSettings tuned() const {
    client::CompileSettings settings = request_.compile;
    settings.tuned = {request_.database, true};
    return settings;
  }

  std::unique_ptr<ModelSession> open(const client::CompileSettings &settings) const {
    return std::make_unique<ModelSession>(request_.model, settings, request_.training,
                                          request_.runners, callbacks_.say);
  }

  void remember(const KernelName &name) {
    winners_.emplace_back(name, database_.winner(name.machine, name.key));
  }

  /// Before kernels, which are others where an operator is done in another way. The operators with
  /// most to do come first; each goes on for as long as it wins.
  void tuneDecisions() {
    constexpr double kPart = 0.4; // of the box
    constexpr size_t kBatch = 4;
    std::vector<TunableKernel> decisions = session_->decisions();
    std::vector<TunableKernel> kernels = session_->kernels();
    std::vector<std::pair<double, const TunableKernel *>> order;
    for (const TunableKernel &decision : decisions)
      order.emplace_back(weightOf(decision, kernels), &decision);
    std::ranges::stable_sort(order, std::greater(), [](const auto &each) { return each.first; });
    TuningSettings settings = settings_;
    settings.search = "greedy";
    settings.batch = kBatch;
    settings.precedents = false;
    for (const auto &[weight, operation] : order) {
      if (isOver(kPart))
        break;
      const TunableKernel &decision = *operation;
      remember(decision.name);
      DecisionBench bench(*session_, tuned(), [&](const auto &compile, const std::string &out) {
        this->compile(compile, out);
      });
      KernelTuner tuner(decision, bench, database_, settings);
      for (bool wins = true; wins && !isOver(kPart);) {
        std::string found = tuner.choices();
        trials_ += int64_t(tuner.step(left(kBatch)));
        wins = tuner.choices() != found;
      }
      failures_ += tuner.failures();
      decided_.push_back(reportOf(decision, tuner));
      tell(decision, tuner);
      if (!tuner.broken().empty()) { // the model itself, which is the same for all
        if (callbacks_.say)
          callbacks_.say("what rewrites decide is left as it is: " + tuner.broken());
        break;
      }
    }
  }

  /// As they are with the winners that there are.
  void openKernels() {
    auto isDecided = [&](const TunableKernel &decision) {
      return database_.winner(decision.name.machine, decision.name.key).has_value();
    };
    if (std::ranges::any_of(session_->decisions(), isDecided))
      session_ = open(tuned());
    kernels_ = session_->kernels();
    for (const TunableKernel &kernel : kernels_) {
      tuners_.push_back(std::make_unique<KernelTuner>(kernel, *session_, database_, settings_));
      tasks_.push_back(taskOf(kernel));
      remember(kernel.name);
    }
  }

  size_t left(size_t batch) const {
    return request_.trials ? std::min(size_t(request_.trials - trials_), batch) : batch;
  }

  void tell(const TunableKernel &decision, const KernelTuner &tuner) const {
    if (callbacks_.progress)
      callbacks_.progress({elapsed(), trials_, tuner.before(), tuner.best(), 0,
                           decision.name.structure + ", the whole model"});
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool isStopped() const { return callbacks_.stop && callbacks_.stop->load(); }

  /// Whether a part of the box is used up. The model's own times come after the box.
  bool isOver(double part) const {
    return isStopped() || (request_.trials && double(trials_) >= part * double(request_.trials)) ||
           (request_.seconds > 0 && elapsed() >= part * request_.seconds);
  }

  void round(size_t number) {
    KernelTuner &tuner = *tuners_[number];
    Task &task = tasks_[number];
    size_t made = tuner.step(left(settings_.batch));
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

  static Json reportOf(const TunableKernel &kernel, const KernelTuner &tuner) {
    Json curve = Json::array(), importances = Json::object(), predicted = Json::array();
    for (double best : tuner.curve())
      curve.push_back(best * 1e6);
    for (const auto &[name, share] : tuner.importances())
      importances[name] = share;
    for (const auto &each : tuner.predictions())
      predicted.push_back({each.score, each.seconds * 1e6});
    return {{"key", kernel.name.key},
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
            {"predicted", predicted}};
  }

  Json kernelsReport() const {
    Json rows = Json::array();
    int64_t failures = failures_;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      failures += tuners_[i]->failures();
      rows.push_back(reportOf(kernels_[i], *tuners_[i]));
    }
    return {{"model", request_.model},
            {"machine", session_->machine()},
            {"database", request_.database},
            {"trials", trials_},
            {"failures", failures},
            {"seconds", elapsed()},
            {"before_ms", nullptr},
            {"after_ms", nullptr},
            {"confidence", nullptr},
            {"decisions", decided_},
            {"kernels", rows}};
  }

  bool hasNewWinners() const {
    return std::ranges::any_of(winners_, [&](const auto &before) {
      auto winner = database_.winner(before.first.machine, before.first.key);
      return winner && (!before.second || before.second->choices != winner->choices);
    });
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
    compile(untuned(), plain);
    compile(this->tuned(), tuned);
    bool isSame = readFile(plain) == readFile(tuned); // nothing won: times would differ by noise
    constexpr int kFewest = 5, kMost = 15;
    constexpr double kSeconds = 0.2; // of each process
    std::vector<double> before, after;
    Verdict verdict;
    for (int turn = 0; turn < kMost; ++turn) {
      RunOutcome first = session_->runModule(turn % 2 ? plain : tuned, kSeconds);
      RunOutcome second = session_->runModule(turn % 2 ? tuned : plain, kSeconds);
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
    for (const auto &[name, winner] : winners_)
      if (winner)
        database_.setWinner(name, *winner);
      else
        database_.removeWinner(name);
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
  std::unique_ptr<ModelSession> session_;
  std::vector<TunableKernel> kernels_;
  Random random_;
  TuningSettings settings_;
  std::vector<std::unique_ptr<KernelTuner>> tuners_;
  std::vector<Task> tasks_;
  std::vector<std::pair<KernelName, std::optional<Winner>>> winners_; // before this run
  Json decided_ = Json::array();                                      // what the report says
  int64_t trials_ = 0, failures_ = 0;
};

} // namespace

Json tuneModel(const TuneRequest &request, const TuneCallbacks &callbacks) {
  return ModelTuning(request, callbacks).run();
}

} // namespace tensmith::tune
