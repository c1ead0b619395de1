// Calls of the compiler's tuning functions, and runners; see ModelSession.h.
#include "tune/ModelSession.h"

#include "client/CompilerLibrary.h"
#include "files/Failure.h"

#include <nlohmann/json.hpp>

namespace tensmith::tune {
namespace {

const client::CompilerLibrary &library() { return client::compilerLibrary(); }

std::string take(char *text) {
  std::string copy = text ? text : "";
  library().freeBytes(text);
  return copy;
}

/// The words of a failure; empty: there is none.
std::string messageOf(ts_status *status) {
  if (!status)
    return {};
  std::string message = ts_status_message(status);
  ts_status_free(status);
  return message.empty() ? "failed" : message;
}

RunOutcome outcomeOf(ts_status *status, char *json) {
  if (std::string message = messageOf(status); !message.empty())
    return {"not started", 0, message};
  client::Json told = client::parseJson(take(json), "a measurement");
  return {told.value("outcome", "not started"), told.value("seconds", 0.0), told.value("why", "")};
}

/// The API's view of a run, and the pointers that it holds.
struct Run {
  std::vector<const char *> words;
  ts_tuning_run run{};

  Run(const std::vector<std::string> &command, const RunnerSettings &settings) {
    for (const std::string &word : command)
      words.push_back(word.c_str());
    run.size = sizeof run;
    run.command = words.data();
    run.command_count = words.size();
    run.limit_seconds = settings.limitSeconds;
    run.repeat_seconds = settings.repeatSeconds;
    run.threads = settings.threads;
  }
};

std::string commandText(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

} // namespace

std::vector<std::string> wordsOf(const std::string &command) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool isOpen = false;
  for (char letter : command) {
    if (quote ? letter == quote : letter == '"' || letter == '\'') {
      quote = quote ? 0 : letter;
      isOpen = true;
    } else if (!quote && letter == ' ') {
      if (isOpen)
        words.push_back(std::move(word));
      word.clear();
      isOpen = false;
    } else {
      word += letter;
      isOpen = true;
    }
  }
  if (quote)
    failUsage("the runner '" + command + "' has a quote without an end");
  if (isOpen)
    words.push_back(std::move(word));
  if (words.empty())
    failUsage("a runner is a program and its arguments; it is empty");
  return words;
}

client::Json featureNames() {
  if (!library().failure.empty())
    throw Failure(library().failure);
  char *json = nullptr;
  if (std::string message = messageOf(library().tuningFeatureNames(&json)); !message.empty())
    throw Failure(message);
  return client::parseJson(take(json), "features");
}

ModelSession::ModelSession(const std::string &model, const client::CompileSettings &settings,
                           const client::TrainingRequest *training, const RunnerSettings &runners,
                           std::function<void(const std::string &)> say)
    : handle_(client::openTuning(model, settings, training)), settings_(runners),
      say_(std::move(say)) {
  for (const std::string &command : runners.commands)
    runners_.push_back({wordsOf(command), {}});
  if (runners_.empty())
    runners_.push_back({});
  char *json = nullptr;
  std::string message = messageOf(library().tuningDescribe(handle_, &json));
  if (!message.empty())
    fail(model, message);
  description_ = client::parseJson(take(json), model);
  machine_ = description_.value("machine", "");
}

ModelSession::~ModelSession() { library().tuningFree(handle_); }

static TunableKernel kernelOf(const client::Json &json, const std::string &machine) {
  TunableKernel kernel;
  kernel.name = {machine, json.value("key", ""), json.value("kernel", "")};
  kernel.nodes = json.value("nodes", std::vector<std::string>());
  kernel.kind = json.value("template", "");
  kernel.estimated = json.value("estimated", "");
  kernel.untunable = json.value("untunable", "");
  kernel.uses = json.value("uses", 1.0);
  kernel.flops = json.value("flops", 0.0);
  kernel.bytes = json.value("bytes", 0.0);
  kernel.space =
      SearchSpace::fromJson(json.value("choices", client::Json::array()), kernel.name.structure);
  return kernel;
}

std::vector<TunableKernel> ModelSession::kernels() const {
  std::vector<TunableKernel> kernels;
  for (const client::Json &json : description_["kernels"])
    kernels.push_back(kernelOf(json, machine_));
  return kernels;
}

std::vector<TunableKernel> ModelSession::decisions() const {
  std::vector<TunableKernel> decisions;
  for (const client::Json &json : description_["decisions"])
    decisions.push_back(kernelOf(json, machine_));
  return decisions;
}

client::Json ModelSession::choicesOf(const std::string &key) const {
  for (const client::Json &json : description_["kernels"])
    if (json.value("key", "") == key)
      return json.value("choices", client::Json::array());
  return client::Json::array();
}

std::optional<size_t> ModelSession::build(const std::string &key, const std::string &choices,
                                          std::string &why) {
  size_t candidate = 0;
  why = messageOf(library().tuningBuild(handle_, key.c_str(), choices.c_str(), &candidate));
  return why.empty() ? std::optional(candidate) : std::nullopt;
}

void ModelSession::drop(size_t candidate) {
  library().tuningDrop(handle_, candidate);
  for (Runner &runner : runners_)
    if (runner.proof == candidate)
      runner.proof.reset();
}

Features ModelSession::features(const std::string &key, const std::string &choices) {
  char *json = nullptr;
  if (!messageOf(library().tuningFeatures(handle_, key.c_str(), choices.c_str(), &json)).empty())
    return {};
  return client::parseJson(take(json), "features").get<Features>();
}

Features ModelSession::loops(const std::string &key, const std::string &choices) {
  char *json = nullptr;
  if (!messageOf(library().tuningLoops(handle_, key.c_str(), choices.c_str(), &json)).empty())
    return {};
  std::vector<Loop> loops;
  for (const client::Json &row : client::parseJson(take(json), "loops"))
    loops.push_back({row.at(0).get<int64_t>(), {row.begin() + 1, row.end()}});
  return treeFeatures(loops);
}

RunOutcome ModelSession::runBy(const Runner &runner, size_t candidate) {
  Run run(runner.words, settings_);
  char *json = nullptr;
  ts_status *status = library().tuningMeasure(handle_, candidate, &run.run, &json);
  return outcomeOf(status, json);
}

bool ModelSession::isAlive(const Runner &runner) {
  return runner.proof && runBy(runner, *runner.proof).isTimed();
}

RunOutcome ModelSession::run(size_t candidate) {
  RunOutcome outcome{"not started", 0, "there is no runner"};
  std::vector<std::pair<Runner, RunOutcome>> suspects; // who failed, and may be at fault
  bool isAlone = runners_.size() == 1;
  while (!runners_.empty()) {
    Runner runner = std::move(runners_.front());
    runners_.pop_front();
    outcome = runBy(runner, candidate);
    bool hasRun = outcome.isTimed() || outcome.outcome == "wrong";
    if (outcome.isTimed())
      runner.proof = candidate;
    // One that still runs what it ran before says that it is the candidate's failure.
    bool isCandidates = !hasRun && (isAlone || isAlive(runner));
    if (!hasRun && !isCandidates) {
      suspects.emplace_back(std::move(runner), outcome);
      continue;
    }
    runners_.push_back(std::move(runner));
    for (auto &[suspect, failure] : suspects)
      if (hasRun)
        say_("the runner '" + commandText(suspect.words) + "' is dropped: " + failure.outcome +
             ": " + failure.why);
      else
        runners_.push_back(std::move(suspect));
    return outcome;
  }
  for (auto &[suspect, failure] : suspects)
    runners_.push_back(std::move(suspect));
  return outcome;
}

RunOutcome ModelSession::runModule(const std::string &path, double seconds) {
  static const std::vector<std::string> kNone;
  Run run(runners_.empty() ? kNone : runners_.front().words, settings_);
  run.run.repeat_seconds = std::max(seconds, settings_.repeatSeconds);
  char *json = nullptr;
  ts_status *status = library().tuningMeasureModule(path.c_str(), &run.run, &json);
  return outcomeOf(status, json);
}

} // namespace tensmith::tune
