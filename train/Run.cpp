// The loop, and what is done between its steps.
#include "train/Run.h"

#include "files/Failure.h"
#include "train/Loader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <numeric>
#include <unistd.h>

namespace tensmith::train {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the process has in memory.
double residentBytes() {
  long long pages = 0, resident = 0;
  if (std::FILE *file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%lld %lld", &pages, &resident) != 2)
      resident = 0;
    std::fclose(file);
  }
  return double(resident) * double(::sysconf(_SC_PAGESIZE));
}

std::string timeLeft(double seconds) {
  auto whole = int64_t(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string scoreText(double loss, std::optional<double> accuracy) {
  return fmt::format("loss {:.4f}", loss) +
         (accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *accuracy) : "");
}

/// What is no number has a sign that says nothing, but would be shown.
double withoutSign(double value) { return std::isnan(value) ? std::abs(value) : value; }

template <typename T> bool allFinite(std::span<const T> values) {
  return std::ranges::all_of(values, [](T value) { return std::isfinite(value); });
}

bool isFinite(const HostTensor &tensor) {
  switch (tensor.type()) {
  case DataType::F32:
    return allFinite(tensor.as<float>());
  case DataType::F64:
    return allFinite(tensor.as<double>());
  case DataType::F16:
  case DataType::BF16:
    for (int64_t i = 0; i < tensor.size(); ++i)
      if (!std::isfinite(tensor.getDouble(i)))
        return false;
    return true;
  default:
    return true;
  }
}

class Run {
public:
  Run(const Settings &settings, const std::filesystem::path &folder, Trainee &trainee,
      const RunData &data, const Position &from, const Metadata &remembered, Watcher &watcher,
      const std::atomic<int> &stop, Processes *processes)
      : settings_(settings), trainee_(trainee), data_(data), remembered_(remembered),
        watcher_(watcher), stop_(stop), processes_(processes),
        share_(processes ? Part{processes->rank(), processes->size()} : Part()),
        checkpoints_(folder / "checkpoints", settings.keep),
        perEpoch_(int64_t(data.rows.train.size()) / settings.batch), at_(from),
        begunAt_(from.seconds) {
    if (isFirst())
      metrics_.emplace(folder, settings.model, from.step, settings.tensorboard);
  }

  Outcome run() {
    while (at_.epoch < settings_.epochs && !stops()) {
      trainEpoch();
      if (at_.batch == perEpoch_)
        endEpoch();
    }
    if (stops())
      return interrupted();
    if (data_.testRows > 0)
      outcome_.test = evaluate("test", data_.test, allRows(data_.testRows), at_.epoch);
    draw();
    return ended();
  }

private:
  static std::vector<int64_t> allRows(int64_t count) {
    std::vector<int64_t> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }

  bool isFirst() const { return share_.number == 0; }

  /// Of several processes, once all know of it.
  bool stops() const { return processes_ ? agreed_ : stop_ != 0; }

  int64_t ownBatch() const { return settings_.batch / share_.of; }

  void trainEpoch() {
    auto order =
        orderOf(data_.rows.train, settings_.shuffle, uint64_t(settings_.seed), uint32_t(at_.epoch));
    order = partOfBatches(order, settings_.batch, share_);
    Loader loader({&data_.train, std::move(order), ownBatch(), at_.batch, at_.epoch, false},
                  int(settings_.workers), int(settings_.queue));
    windowStart_ = Clock::now();
    windowWaited_ = 0;
    while (!stops()) {
      const Batch *batch = loader.next();
      if (!batch)
        return;
      auto start = Clock::now();
      take(trainee_.step(*batch));
      stepSeconds_ =
          stepSeconds_ > 0 ? 0.95 * stepSeconds_ + 0.05 * secondsSince(start) : secondsSince(start);
      if (isLogged())
        log(loader.waited());
      show(loader.waited());
      if (settings_.checkpointEvery > 0 && at_.step % settings_.checkpointEvery == 0 &&
          at_.batch < perEpoch_)
        writeCheckpoint();
    }
  }

  /// Counts a step that is done.
  void take(const Score &score) {
    agreed_ = score.stopped;
    if (!std::isfinite(score.loss) && isFirst()) // who ends the others, too
      notFinite(fmt::format("the loss of step {} is {}", at_.step + 1, withoutSign(score.loss)));
    ++at_.step;
    ++at_.batch;
    for (Sums *sums : {&at_.ofEpoch, &at_.ofLog}) {
      sums->loss += score.loss * double(settings_.batch);
      sums->correct += score.accuracy.value_or(0) * double(settings_.batch);
      sums->samples += settings_.batch;
    }
    counts_ = score.accuracy.has_value();
    at_.seconds = begunAt_ + secondsSince(begun_);
  }

  /// Blames the data where they are not finite themselves.
  [[noreturn]] void notFinite(const std::string &what) const {
    std::vector<int64_t> steps = checkpoints_.steps();
    std::string stands = steps.empty() ? std::string("there is no checkpoint before it")
                                       : fmt::format("the checkpoint of step {} stands", steps[0]);
    for (const Feed &feed : data_.train)
      if (std::string sample = feed.firstNotFinite(data_.rows.train); !sample.empty())
        throw Failure(
            fmt::format("{}, and {}; mend the sample, or leave it out; {}", sample, what, stands));
    throw Failure(fmt::format(
        "{}: {} (epoch {}); {}lower --learning-rate, or limit the gradient with --clip-norm; {}",
        settings_.model, what, at_.epoch + 1,
        settings_.precision == "f16"
            ? "what is beyond 65504 is infinite in f16: train with --precision bf16, or "
            : "",
        stands));
  }

  std::optional<double> accuracyOf(const Sums &sums) const {
    return counts_ ? std::optional(sums.correct / double(sums.samples)) : std::nullopt;
  }

  void add(const Metric &metric) {
    if (!metrics_)
      return;
    metrics_->add(metric);
    watcher_.measured(metric);
  }
  void draw() const {
    if (metrics_)
      metrics_->draw();
  }

  double epochNow() const { return double(at_.epoch) + double(at_.batch) / double(perEpoch_); }

  void log(double waited) {
    const Sums &sums = at_.ofLog;
    double seconds = secondsSince(windowStart_);
    Metric metric = {"train", at_.step, epochNow(), sums.loss / double(sums.samples)};
    metric.accuracy = accuracyOf(sums);
    metric.samplesPerSecond = double(sums.samples) / std::max(seconds, 1e-9);
    metric.waited = std::clamp((waited - windowWaited_) / std::max(seconds, 1e-9), 0.0, 1.0);
    metric.seconds = at_.seconds;
    add(metric);
    at_.ofLog = {};
    windowStart_ = Clock::now();
    windowWaited_ = waited;
  }

  /// Each so many steps, or each epoch where those are shorter.
  bool isLogged() const {
    return perEpoch_ < settings_.logEvery ? at_.batch == perEpoch_
                                          : at_.step % settings_.logEvery == 0;
  }

  void show(double waited) {
    int64_t all = perEpoch_ * settings_.epochs;
    const Sums &sums = at_.ofEpoch;
    double done = double(at_.step) / double(all);
    double left = stepSeconds_ * double(all - at_.step);
    auto blocks = size_t(10 * double(at_.batch) / double(perEpoch_));
    std::string bar;
    for (size_t i = 0; i < 10; ++i)
      bar += i < blocks ? "█" : "░";
    watcher_.progress(fmt::format("epoch {}/{}", at_.epoch + 1, settings_.epochs), done,
                      fmt::format("{} {} left, {}, {:.0f} samples/s, {:.0f} MB, step {}", bar,
                                  timeLeft(left),
                                  scoreText(sums.loss / double(sums.samples), accuracyOf(sums)),
                                  double(settings_.batch) / std::max(stepSeconds_, 1e-9),
                                  residentBytes() * 1e-6, at_.step));
  }

  /// What judges the parameters: over all rows, in their order. Each process takes its part.
  Metric evaluate(const std::string &kind, const std::vector<Feed> &feeds,
                  std::vector<int64_t> rows, int64_t epoch) {
    double sums[4] = {0, 0, 0, 0}, done = 0; // losses, right answers, targets; whether they count
    trainee_.settle();
    rows = partOfAll(rows, share_);
    auto own = double(rows.size());
    Loader loader({&feeds, std::move(rows), ownBatch(), 0, -1, true}, int(settings_.workers),
                  int(settings_.queue));
    while (const Batch *batch = loader.next()) {
      Score score = trainee_.evaluate(*batch);
      double weight = score.counted.value_or(double(batch->rows));
      sums[0] += score.loss * weight;
      sums[1] += score.accuracy.value_or(0) * weight;
      sums[2] += weight;
      sums[3] = score.accuracy.has_value();
      done += double(batch->rows);
      watcher_.progress(kind, done / own, "");
    }
    if (processes_)
      processes_->sum(sums);
    double targets = std::max(1.0, sums[2]);
    Metric metric = {kind, at_.step, double(epoch), withoutSign(sums[0] / targets)};
    if (sums[3] > 0)
      metric.accuracy = sums[1] / targets;
    metric.seconds = at_.seconds;
    add(metric);
    return metric;
  }

  void endEpoch() {
    std::string line = fmt::format(
        "epoch {}: {}", at_.epoch + 1,
        scoreText(at_.ofEpoch.loss / double(at_.ofEpoch.samples), accuracyOf(at_.ofEpoch)));
    if (!data_.rows.validation.empty()) {
      outcome_.validation =
          evaluate("validation", data_.evaluation, data_.rows.validation, at_.epoch + 1);
      line += "; validation " + scoreText(outcome_.validation->loss, outcome_.validation->accuracy);
    }
    ++at_.epoch;
    at_.batch = 0;
    at_.ofEpoch = {};
    writeCheckpoint();
    draw();
    watcher_.say(fmt::format("{} ({:.0f} s)", line, at_.seconds));
  }

  /// Only of states that can be gone on from.
  void writeCheckpoint() {
    std::vector<NamedTensor> states = trainee_.states();
    written_ = at_.step;
    if (!isFirst())
      return;
    for (const NamedTensor &state : states)
      if (!isFinite(state.tensor))
        notFinite(fmt::format("'{}' is not finite after step {}", state.name, at_.step));
    outcome_.checkpoint = checkpoints_.write(states, at_, remembered_);
  }

  Outcome interrupted() {
    if (at_.step > 0 && written_ != at_.step)
      writeCheckpoint();
    draw();
    outcome_.interrupted = true;
    return ended();
  }

  Outcome ended() {
    outcome_.position = at_;
    if (metrics_)
      outcome_.metrics = metrics_->all();
    return outcome_;
  }

  const Settings &settings_;
  Trainee &trainee_;
  const RunData &data_;
  Metadata remembered_;
  Watcher &watcher_;
  const std::atomic<int> &stop_;
  Processes *processes_;
  Part share_; // this process's
  bool agreed_ = false;
  Checkpoints checkpoints_;
  std::optional<Metrics> metrics_;
  int64_t perEpoch_, written_ = -1;
  Position at_;
  Clock::time_point begun_ = Clock::now(), windowStart_;
  double begunAt_, windowWaited_ = 0, stepSeconds_ = 0;
  bool counts_ = false;
  Outcome outcome_;
};

} // namespace

Outcome runTraining(const Settings &settings, const std::filesystem::path &folder, Trainee &trainee,
                    const RunData &data, const std::optional<Checkpoint> &from,
                    const Metadata &remembered, Watcher &watcher, const std::atomic<int> &stop,
                    Processes *processes) {
  if (processes && settings.batch % processes->size() != 0)
    throw Failure(fmt::format("{}: a batch of {} samples can't be shared out to {} processes; let "
                              "it be a multiple",
                              settings.origin("batch"), settings.batch, processes->size()));
  if (int64_t(data.rows.train.size()) < settings.batch)
    fail(settings.data[0],
         fmt::format("has {} samples to train on, fewer than a batch of {}; lower --batch",
                     data.rows.train.size(), settings.batch));
  if (from)
    trainee.restore(from->contents.tensors, from->path);
  return Run(settings, folder, trainee, data, from ? from->position : Position(), remembered,
             watcher, stop, processes)
      .run();
}

} // namespace tensmith::train
